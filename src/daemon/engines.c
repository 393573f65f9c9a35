/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engines.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

struct engine_choice *engines_choices(const struct config *config)
{
	struct engine_choice *choices = calloc(config->engine_count, sizeof(*choices));

	for (size_t i = 0; choices && i < config->engine_count; i++)
		choices[i] = (struct engine_choice){ .driver = config->engines[i].driver,
						     .enabled = config->engines[i].enabled,
						     .settings = config->engines[i].settings };
	return choices;
}

uint32_t engines_demands(const struct config *config)
{
	uint32_t demands = 0;

	for (size_t i = 0; i < config->engine_count; i++)
		if (config->engines[i].enabled)
			demands |= config->engines[i].driver->demands;
	return demands;
}

int engines_open_recipes(void)
{
	static const char *const places[] = { "../../templates", "../../share/cay/templates" };
	char program[CONFIG_TEXT_MAX], path[CONFIG_TEXT_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	int fd = -1;
	char *slash;

	if (n <= 0)
		return -1;
	program[n] = '\0';
	slash = strrchr(program, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; fd < 0 && i < ARRAY_LEN(places); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", program, places[i]);
		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	return fd < 0 ? open("/usr/share/cay/templates", O_PATH | O_DIRECTORY | O_CLOEXEC) : fd;
}
