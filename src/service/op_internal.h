/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/service only: an operation under way.
 *
 * The called layer (an engine, a link, the loop) holds the operation as its callback's argument
 * and completes it exactly once, on a later turn. The operation carries handles instead of pointers
 * to what may end meanwhile: the sandbox by its slot handle, the service by a pointer that is
 * cleared when the service ends. A completion without a service only frees.
 *
 * A theme that has to remember more embeds struct op as the first member of a struct of its own,
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
	struct service *service; /* NULL: it has ended */
	slot_handle sandbox;	 /* 0: it concerns no sandbox */
};

/* One of type, whose first member is "struct op op", in the service's list; NULL with err. All
 * other members are zero. */
#define OP_NEW(type, service, sandbox, err)                                                \
	({                                                                                 \
		static_assert(offsetof(type, op) == 0, "an operation begins with its op"); \
		(type *)op_alloc((service), (sandbox), sizeof(type), (err));               \
	})
void *op_alloc(struct service *service, slot_handle sandbox, size_t size, struct err *err);
/* One that needs to remember nothing else. */
struct op *op_new(struct service *service, slot_handle sandbox, struct err *err);
/* Puts one that is allocated already, and zeroed, into a list of its theme. */
void op_begin(struct op *op, struct op_list *list, struct service *service, slot_handle sandbox);

/* Takes it out of its list, without freeing. The service it belonged to; NULL: that has ended. */
struct service *op_unlink(struct op *op);
/* The same, and frees it: its members must have been copied before. NULL is fine. */
struct service *op_end(struct op *op);
/* The same for its sandbox, or NULL when that or all is gone. */
struct sandbox *op_end_sandbox(struct op *op);
/* Its sandbox while it is under way; NULL as above. */
struct sandbox *op_sandbox(const struct op *op);

/* The service ends: what is in the list completes without it. */
void op_list_abandon(struct op_list *list);

#endif
