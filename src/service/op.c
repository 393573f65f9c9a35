/* SPDX-License-Identifier: Apache-2.0 */
#include "service/op_internal.h"

#include "service/service_internal.h"

void op_begin(struct op *op, struct op_list *list, struct service *service, slot_handle sandbox)
{
	op->service = service;
	op->sandbox = sandbox;
	op->list = list;
	op->next = list->first;
	if (op->next)
		op->next->prev = op;
	list->first = op;
	list->count++;
}

void *op_alloc(struct service *service, slot_handle sandbox, size_t size, struct err *err)
{
	struct op *op = calloc(1, size);

	if (!op) {
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		return NULL;
	}
	op_begin(op, &service->upkeep.ops, service, sandbox);
	return op;
}

struct op *op_new(struct service *service, slot_handle sandbox, struct err *err)
{
	return op_alloc(service, sandbox, sizeof(struct op), err);
}

struct service *op_unlink(struct op *op)
{
	struct service *service = op->service;

	if (!service)
		return NULL;
	if (op->prev)
		op->prev->next = op->next;
	else
		op->list->first = op->next;
	if (op->next)
		op->next->prev = op->prev;
	op->list->count--;
	op->prev = op->next = NULL;
	op->service = NULL;
	return service;
}

struct service *op_end(struct op *op)
{
	struct service *service = op ? op_unlink(op) : NULL;

	free(op);
	return service;
}

struct sandbox *op_sandbox(const struct op *op)
{
	return op->service ? sandbox_get(op->service, op->sandbox) : NULL;
}

struct sandbox *op_end_sandbox(struct op *op)
{
	struct sandbox *sandbox = op_sandbox(op);

	(void)op_end(op);
	return sandbox;
}

void op_list_abandon(struct op_list *list)
{
	for (struct op *op = list->first; op; op = op->next)
		op->service = NULL;
	*list = (struct op_list){ .first = NULL };
}
