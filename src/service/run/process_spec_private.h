/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: a checked request to run a program, in the form that the link needs. */
#ifndef CAY_SERVICE_RUN_PROCESS_SPEC_PRIVATE_H
#define CAY_SERVICE_RUN_PROCESS_SPEC_PRIVATE_H

#include "base/arena.h"
#include "engine/link.h"
#include "service/run/exec.h"
#include "service/pairs.h"
#include "service/service_internal.h"

struct spec_build {
	struct link_exec exec;
	struct arena arena;
	struct pairs own_env;
	struct pairs secret_env;
	size_t bytes; /* of EXEC_BYTES_MAX */
};
int spec_build(struct spec_build *b, const struct sandbox *sandbox, const struct exec_spec *spec,
	       struct err *err) _must_check_;
/* env, cwd and user only. */
int spec_build_place(struct spec_build *b, const struct sandbox *sandbox,
		     const struct exec_spec *spec, struct err *err) _must_check_;
int spec_keep(struct spec_build *b, struct err *err) _must_check_; /* outlives the caller's views */
void spec_done(struct spec_build *b);
int process_check_size(int64_t cols, int64_t rows, struct err *err) _must_check_;
int spec_check_name(const char *what, struct str name, struct err *err) _must_check_;

#endif
