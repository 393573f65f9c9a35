/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Egress policies: what a sandbox may reach. The engine gives it a link that leads only to the
 * daemon. The faces that serve the link (src/face/egress/) ask here before they resolve a name or
 * connect, and report what they refused. Each sandbox has its own policy, which may change at any
 * time.
 *
 *   none        no link
 *   restricted  what `allow` names and `deny` does not
 *   full        every public address except what `deny` names; others only if `allow` names them
 *
 * deny has precedence over allow. Addresses of this host, of other sandboxes and of metadata
 * services are refused whatever the lists say; private ones unless an entry of `allow` is itself in
 * a private range. docs/guides/network.md describes the rules. The sandbox owns its policy.
 */
#ifndef CAY_SERVICE_NETWORK_EGRESS_H
#define CAY_SERVICE_NETWORK_EGRESS_H

#include "base/err.h"
#include "base/buf.h"
#include "base/slot.h"
#include "service/texts.h"

struct engine_network;
struct sandbox;
struct service;

enum network_mode { NETWORK_NONE, NETWORK_RESTRICTED, NETWORK_FULL, NETWORK_MODE_COUNT };
extern const char *const network_mode_names[]; /* NULL-terminated */

#define EGRESS_NAME_MAX 253
#define EGRESS_RULES_MAX 256 /* per list; more are rejected */

enum egress_kind { EGRESS_NAME, EGRESS_BELOW /* *.name */, EGRESS_NET };

/* One entry of allow or deny. Owner: its policy. */
struct egress_rule {
	uint8_t kind;  /* enum egress_kind */
	uint8_t bits;  /* EGRESS_NET: of 128; IPv4 is ::ffff:0:0/96 */
	uint16_t port; /* 0: any */
	uint8_t address[16];
	char *text; /* as shown; a name without its port is at `name` */
	char *name; /* EGRESS_NAME, EGRESS_BELOW: lower case, without "*." */
};

/* Owner: the attrs of a sandbox. */
struct egress_policy {
	uint8_t mode; /* enum network_mode */
	bool learn;   /* requests that only lack an entry in allow are permitted and reported */
	struct egress_rule *allow, *deny;
	uint32_t allow_count, deny_count;
};

/* ---- entries, src/service/network/egress_rule.c ---- */

/*
 * A host name, lower case and without a trailing dot; -EINVAL for anything else, including
 * addresses.
 */
int egress_name_parse(struct str text, char ret[EGRESS_NAME_MAX + 1]) _must_check_;
/*
 * An address in any form that some program accepts: dotted, decimal, octal, hex, IPv6, and IPv6
 * forms that contain an IPv4 address.
 */
int egress_address_parse(struct str text, uint8_t ret[16]) _must_check_;
/* field is named in the error: "network.allow[2]". */
int egress_rule_parse(struct str text, const char *field, struct egress_rule *ret,
		      struct err *err) _must_check_;
void egress_rule_done(struct egress_rule *rule);
bool egress_rule_has_name(const struct egress_rule *rule, struct str name, uint16_t port);
bool egress_rule_has_address(const struct egress_rule *rule, uint32_t address, uint16_t port);
/* Whether the rule names only private or other special addresses. */
bool egress_rule_is_special(const struct egress_rule *rule);

/* ---- policies, src/service/network/egress_policy.c ---- */

/* The fields of POST and PATCH; views live during the call. */
struct egress_want {
	int mode;
	bool learn;
	struct text_list allow, deny;
	bool has_mode, has_learn, has_allow, has_deny;
};
static inline bool egress_wanted(const struct egress_want *want)
{
	return want->has_mode || want->has_allow || want->has_deny || want->has_learn;
}
/* A new policy from an old one (NULL: none) and the requested changes. */
int egress_policy_make(const struct egress_policy *old, const struct egress_want *want,
		       struct egress_policy **ret, struct err *err) _must_check_;
struct egress_policy *egress_policy_copy(const struct egress_policy *policy); /* NULL: no memory */
void egress_policy_free(struct egress_policy *policy);
/* Encodes it for the store. */
int egress_policy_save(const struct egress_policy *policy, struct buf *out) _must_check_;
int egress_policy_load(const char *text, struct egress_policy **ret) _must_check_;
enum network_mode egress_mode(const struct sandbox *sandbox);

/* ---- for the faces that serve the links, src/service/network/egress.c ---- */

enum egress_protocol {
	EGRESS_DNS,
	EGRESS_TLS,
	EGRESS_HTTP,
	EGRESS_TCP, /* another protocol, or one in which the server speaks first */
	EGRESS_UDP,
	EGRESS_ICMP,
	EGRESS_OTHER,
};

struct egress_ask {
	enum egress_protocol protocol;
	uint32_t address; /* unused for EGRESS_DNS */
	uint16_t port;
	bool is_local;	 /* the address is one of this host's */
	struct str name; /* the name that the client gave: lower case; empty: none */
};

enum egress_why {
	EGRESS_ALLOWED,
	EGRESS_LEARNED,	    /* allowed because of learn */
	EGRESS_NO_NETWORK,  /* mode none */
	EGRESS_NOT_ALLOWED, /* no entry of allow matches */
	EGRESS_DENIED,	    /* an entry of deny */
	EGRESS_PRIVATE,
	EGRESS_HOST,	     /* never reachable: this host, its sandboxes, metadata services */
	EGRESS_NAMELESS,     /* allowed only by name, and the client gave none */
	EGRESS_NOT_RESOLVED, /* the name is allowed but was not resolved to this address */
	EGRESS_BAD_NAME,
	EGRESS_TOO_MANY,
	EGRESS_PROTOCOL, /* neither TCP nor DNS */
	EGRESS_WHY_COUNT,
};

struct egress_verdict {
	enum egress_why why;
	char rule[EGRESS_NAME_MAX + 16]; /* the entry that decided, or "" */
};
static inline bool egress_passes(const struct egress_verdict *verdict)
{
	return verdict->why <= EGRESS_LEARNED;
}

/* The sandbox whose link has this address; NULL: none. */
struct sandbox *egress_find(struct service *service, uint32_t address);
void egress_judge(const struct sandbox *sandbox, const struct egress_ask *ask,
		  struct egress_verdict *ret);
/* Whether another name on the same connection could be judged differently. */
bool egress_needs_name(const struct sandbox *sandbox, const struct egress_ask *ask);
/*
 * Whether this address was returned for a name that a brokered secret of the sandbox is bound to.
 */
bool egress_is_brokered(const struct sandbox *sandbox, uint32_t address, uint16_t port);
/* Whether an address may be returned as an answer. */
bool egress_answer_passes(const struct sandbox *sandbox, uint32_t address);
/* ---- the sink, src/service/network/egress_sink.c ---- */

/*
 * The address to which refused names resolve; 0: the sandbox has no link. Connections to it are
 * always refused.
 */
uint32_t egress_sink(const struct sandbox *sandbox);
enum egress_question { EGRESS_ASKS_A = 1, EGRESS_ASKS_AAAA = 2, EGRESS_ASKS_OTHER = 4 };
/*
 * A refused name was looked up. true: a new attempt, to be recorded; false: part of the last one.
 */
bool egress_sink_asked(struct sandbox *sandbox, struct str name, enum egress_question kind);

/* The name was resolved to this address for this sandbox. */
void egress_pin(struct sandbox *sandbox, struct str name, uint32_t address, uint32_t ttl_sec);
/*
 * Records what was refused, or allowed by learn; host: the name that the client gave, otherwise its
 * address.
 */
void egress_note(struct sandbox *sandbox, const struct egress_ask *ask,
		 const struct egress_verdict *verdict);
/* One line for people: what was refused and what would change that. */
void egress_explain(const struct sandbox *sandbox, const struct egress_ask *ask,
		    const struct egress_verdict *verdict, char *ret, size_t size);
const char *egress_why_name(enum egress_why why);
void egress_host_text(const struct egress_ask *ask, char ret[EGRESS_NAME_MAX + 1]);
slot_handle egress_handle(const struct sandbox *sandbox);
const char *egress_id(const struct sandbox *sandbox);
/* Grows with every change of the policy, after which earlier decisions have to be made again. */
uint32_t egress_version(const struct sandbox *sandbox);

/* A refused connection, or one that learn allowed. Texts live for the call. */
struct egress_denial {
	const char *host, *protocol;
	const char *rule;	/* the entry that decided, or NULL */
	const char *suggestion; /* the entry of allow that would permit it, or NULL */
	uint16_t port;		/* 0: none */
	enum egress_why why;
	uint64_t count;
	int64_t first_ms, last_ms; /* wall clock */
};
typedef void (*egress_denial_fn)(void *arg, const struct egress_denial *denial);
void egress_denials_each(const struct sandbox *sandbox, egress_denial_fn fn,
			 void *arg); /* newest first */

#endif
