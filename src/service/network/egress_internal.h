/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: the state of a sandbox with a network. */
#ifndef CAY_SERVICE_NETWORK_EGRESS_INTERNAL_H
#define CAY_SERVICE_NETWORK_EGRESS_INTERNAL_H

#include "service/network/egress.h"
#include "service/service_internal.h"

struct egress_pin {
	char *name;
	uint32_t address;
	int64_t until_ms; /* boot clock */
};

struct denial;

/* Owner: the sandbox. Not stored: after a restart names are looked up again. */
struct egress {
	uint32_t address; /* of its link; 0: none */
	uint32_t gateway;
	uint32_t sink; /* 0: none */
	struct egress_pin *pins;
	uint32_t pin_count, pin_room;
	struct egress_sunk *sunk; /* egress_sink.c; NULL: no name was refused yet */
	struct denial *denials;
	uint32_t denial_count;
	bool denials_unsaved;
	int64_t told_ms; /* when the current minute of events began */
	uint32_t told;	 /* events in that minute */
};

/* egress_sink.c */
void egress_sink_free(struct egress *egress);
bool egress_is_sink(const struct sandbox *sandbox, uint32_t address);
/* A connection to the sink. true: it belongs to a lookup that was counted. */
bool egress_sink_connected(const struct sandbox *sandbox, struct str name);

void denials_free(struct egress *egress);
struct egress *egress_of(struct sandbox *sandbox); /* created if it is missing; NULL: no memory */

/* egress_judge.c. true: refused because of the address; ret has the reason. */
bool egress_judge_place(const struct sandbox *sandbox, const struct egress_ask *ask,
			struct egress_verdict *ret);
/* Whether the operator permits policies to name this private address or address of this host. */
bool egress_is_opened(const struct sandbox *sandbox, const struct egress_ask *ask);

/* egress.c */
enum engine_link egress_link(const struct sandbox *sandbox); /* what its policy needs */
enum engine_link egress_policy_link(const struct egress_policy *policy);
bool egress_is_linked(const struct sandbox *sandbox);
void egress_linked(struct sandbox *sandbox, const struct engine_network *network);
/* The agent has been reached. network: as the engine reports it. */
void egress_attached(struct sandbox *sandbox, const struct engine_network *network);
/* A connection to the agent's proxy. Owns fd. */
void egress_offered(struct sandbox *sandbox, int fd);
void egress_free(struct sandbox *sandbox);
void egress_rejected(struct service *service, uint32_t from, uint32_t to, uint16_t port,
		     uint8_t protocol);
int egress_check_engine(const struct service_engine *engine, const struct egress_policy *policy,
			struct err *err) _must_check_;
/* Applies a changed policy. 1: complete. 0: the engine changes the link, and done is called
 * afterwards. */
int egress_apply(struct sandbox *sandbox, struct egress_policy *old, sandbox_changed_fn done,
		 void *arg, struct err *err) _must_check_;

/* egress_denials.c: the lists are saved every few seconds, and with the service's end. */
int denials_load(struct service *service, struct err *err) _must_check_;
void denials_tick(struct service *service);
void denials_save_all(struct service *service);
void denials_forget(struct sandbox *sandbox);

#endif
