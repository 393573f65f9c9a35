/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/service only: an operation in progress.
 *
 * The called layer (an engine, a link, the loop) holds the operation as its callback's argument
 * and completes it exactly once, on a later iteration of the loop. Objects that may end meanwhile
 * are not referenced by plain pointers: the sandbox is a slot handle, and the pointer to the
 * service is cleared when the service closes. A completion without a service only frees the
 * operation.
 *
 * A theme that needs more state embeds struct op as the first member of a struct of its own,
 * beside the caller's function with its own type. No function pointer is cast.
 */
#ifndef CAY_SERVICE_OP_INTERNAL_H
#define CAY_SERVICE_OP_INTERNAL_H

#include "base/err.h"
#include "base/macro.h"
#include "base/slot.h"

struct op;
struct sandbox;
struct service;

/* Operations of one kind. Owner: the theme. No limit of its own: where callers can start any
 * number, the theme compares count with its limit. */
struct op_list {
	struct op *first;
	uint32_t count;
};

/* Owner: the layer that completes it. */
struct op {
	struct op *prev, *next;
	struct op_list *list;
	struct service *service; /* NULL: the service was closed */
	slot_handle sandbox;	 /* 0: the operation has no sandbox */
};

/* Allocates a zeroed struct of this type, whose first member is "struct op op", and adds it to the
 * service's list. NULL with err if there is no memory. */
#define OP_NEW(type, service, sandbox, err)                                                \
	({                                                                                 \
		static_assert(offsetof(type, op) == 0, "an operation begins with its op"); \
		(type *)op_alloc((service), (sandbox), sizeof(type), (err));               \
	})
void *op_alloc(struct service *service, slot_handle sandbox, size_t size, struct err *err);
/* Allocates a plain operation, without further members. */
struct op *op_new(struct service *service, slot_handle sandbox, struct err *err);
/* Adds an operation that the caller has allocated and zeroed to a list of its theme. */
void op_begin(struct op *op, struct op_list *list, struct service *service, slot_handle sandbox);

/* Removes the operation from its list without freeing it. Returns its service; NULL: closed. */
struct service *op_unlink(struct op *op);
/* Also frees the operation, so its members must have been copied before. op may be NULL. */
struct service *op_end(struct op *op);
/* As op_end(), but returns the sandbox; NULL if the sandbox or the service is gone. */
struct sandbox *op_end_sandbox(struct op *op);
/* The sandbox of an operation in progress; NULL as for op_end_sandbox(). */
struct sandbox *op_sandbox(const struct op *op);

/* The service closes: detaches all operations, which then complete without it. */
void op_list_abandon(struct op_list *list);

#endif
