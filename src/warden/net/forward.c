/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forwarding on the links that lead outside: replies to routed sandboxes arrive there and must be
 * forwarded to them. Hosts that route usually have it enabled. Elsewhere it is enabled for these
 * links only, never for the whole host, and the rules drop everything else that could pass now.
 *
 * Several instances may need the same link. Each has a file /run/cay/forward-NET-LINK.N (NET: the
 * net namespace, N: the instance), written before the change, so that the setting is restored also
 * after kill -9: by the last of them that ends. The file exists only if an instance changed the
 * setting.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/time.h"
#include "sys/file.h"
#include "sys/net/nft.h"
#include "sys/net/rtnl.h"
#include "warden/net/links.h"

#define LOOK_MS 5000 /* default routes rarely change */
#define PATH_SIZE 64

static_assert(sizeof(((struct links *)NULL)->uplinks) == NFT_UPLINKS_MAX * IF_NAMESIZE, "as many");

static unsigned long long net_number(const struct warden *w)
{
	struct stat st;

	return fstat(w->home.net_fd, &st) < 0 ? 0 : (unsigned long long)st.st_ino;
}

static void note_path(const struct warden *w, const char *link, unsigned instance,
		      char dst[PATH_SIZE])
{
	(void)snprintf(dst, PATH_SIZE, "forward-%llu-%s.%u", net_number(w), link, instance);
}

static bool has_note(const struct warden *w, const char *link, unsigned instance)
{
	char path[PATH_SIZE], claim[16], owner[PATH_MAX];

	(void)snprintf(claim, sizeof(claim), "%u", instance);
	note_path(w, link, instance, path);
	/* A file whose owner no longer exists does not count. */
	return faccessat(w->run_fd, path, F_OK, 0) == 0 &&
	       file_read(w->run_fd, claim, owner, sizeof(owner)) > 0;
}

static bool others_need(const struct warden *w, const char *link)
{
	for (unsigned i = 0; i < INSTANCES_MAX; i++)
		if (i != w->instance && has_note(w, link, i))
			return true;
	return false;
}

static int lock_notes(const struct warden *w)
{
	int fd = openat(w->run_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd >= 0)
		(void)flock(fd, LOCK_EX);
	return fd;
}

static void setting_path(const char *link, char dst[PATH_SIZE])
{
	(void)snprintf(dst, PATH_SIZE, "sys/net/ipv4/conf/%s/forwarding", link);
}

static bool is_known(const struct warden *w, const char *link)
{
	for (unsigned i = 0; i < w->links.uplink_count; i++)
		if (strcmp(w->links.uplinks[i], link) == 0)
			return true;
	return false;
}

static void keep(struct warden *w, const char *link)
{
	if (!is_known(w, link) && w->links.uplink_count < NFT_UPLINKS_MAX)
		(void)snprintf(w->links.uplinks[w->links.uplink_count++], IF_NAMESIZE, "%s", link);
}

/* The file and the rules first: the link never forwards for others, and never without a record. */
static int turn_on(struct warden *w, const char *link, const char *setting)
{
	char path[PATH_SIZE];
	_cleanup_close_ int fd = -1;
	int r;

	note_path(w, link, w->instance, path);
	fd = openat(w->run_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	keep(w, link);
	r = links_install(w);
	return r < 0 ? r : file_write(w->proc_fd, setting, "1");
}

static void need_one(struct warden *w, const char *link)
{
	char setting[PATH_SIZE];
	uint64_t on = 0;
	int r;

	setting_path(link, setting);
	r = file_read_u64(w->proc_fd, setting, &on);
	if (r >= 0 && (!on || (!is_known(w, link) && others_need(w, link)))) {
		r = turn_on(w, link, setting);
		log_info("link %s %s, for sandboxes with a full network only", link,
			 r < 0 ? "does not forward" : "forwards now");
	}
	if (r < 0)
		log_warn("forwarding of link %s: %s; UDP and ping of sandboxes do not pass", link,
			 strerror(-r));
}

void forward_need(struct warden *w)
{
	unsigned links[NFT_UPLINKS_MAX];
	int64_t now_ms = time_boot_ms();
	int lock, n;

	if (w->links.forward_ms && now_ms - w->links.forward_ms < LOOK_MS)
		return;
	w->links.forward_ms = now_ms;
	n = rtnl_default_links(w->links.rtnl_fd, links, ARRAY_LEN(links));
	if (n <= 0)
		return;
	lock = lock_notes(w);
	for (int i = 0; i < n; i++) {
		char name[IF_NAMESIZE];

		if (if_indextoname(links[i], name))
			need_one(w, name);
	}
	if (lock >= 0)
		(void)close(lock);
}

void forward_open(struct warden *w)
{
	char prefix[PATH_SIZE], end[16];
	int fd = openat(w->run_fd, ".", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t n;

	(void)snprintf(prefix, sizeof(prefix), "forward-%llu-", net_number(w));
	(void)snprintf(end, sizeof(end), ".%u", w->instance);
	n = strlen(prefix);
	for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
		size_t all = strlen(e->d_name), tail = strlen(end);
		char link[IF_NAMESIZE];

		if (all <= n + tail || all - n - tail >= sizeof(link) ||
		    strncmp(e->d_name, prefix, n) != 0 || strcmp(e->d_name + all - tail, end) != 0)
			continue;
		memcpy(link, e->d_name + n, all - n - tail);
		link[all - n - tail] = '\0';
		keep(w, link);
	}
	if (dir)
		(void)closedir(dir);
}

void forward_close(struct warden *w)
{
	int lock;

	if (!w->links.uplink_count)
		return;
	lock = lock_notes(w);
	for (unsigned i = 0; i < w->links.uplink_count; i++) {
		const char *link = w->links.uplinks[i];
		char path[PATH_SIZE], setting[PATH_SIZE];

		setting_path(link, setting);
		if (!others_need(w, link) && file_write(w->proc_fd, setting, "0") < 0)
			log_debug("link %s is gone", link);
		note_path(w, link, w->instance, path);
		(void)unlinkat(w->run_fd, path, 0);
	}
	w->links.uplink_count = 0;
	if (lock >= 0)
		(void)close(lock);
}
