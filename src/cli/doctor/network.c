/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel features for sandboxes with a network, tested in a temporary network namespace. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/doctor/doctor.h"
#include "sys/net/nft.h"
#include "sys/net/rtnl.h"

#define GROUP "Network"

static int try_veth(void)
{
	const struct rtnl_end here = { "eth0", 10, 0x0a000002, 0x0a000001, true };
	const struct rtnl_end there = { .name = "outside", .ifindex = 11 };
	_cleanup_close_ int fd = -1, own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int r = own < 0 ? -errno : rtnl_open(&fd);

	return r < 0 ? r : rtnl_veth_make(fd, &here, &there, own, NFT_GROUP_CLOSED);
}

static int try_nft(void)
{
	const struct nft_spec spec = {
		.table = "cay", .prefix = "cay-", .proxy_port = 1, .dns_port = 2, .log_group = 1
	};
	_cleanup_close_ int fd = -1;
	int r = nft_open(&fd);

	return r < 0 ? r : nft_install(fd, &spec);
}

/* Runs it in a child with its own namespace; returns its errno, or -1 if it could not be tested. */
static int try_alone(int (*what)(void))
{
	int status, pid = fork();

	if (pid == 0) {
		if (unshare(CLONE_NEWNET) < 0)
			_exit(255);
		status = what();
		_exit(status < 0 ? MIN(-status, 254) : 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status) == 255 ? -1 : WEXITSTATUS(status);
}

static void check_one(struct doctor *d, const char *name, int (*what)(void), const char *next)
{
	int error = try_alone(what);
	struct check *c = doctor_add(d, GROUP, error ? CHECK_WARN : CHECK_OK, name, "%s",
				     error < 0 ? "not checked: only root can try it"
				     : error   ? strerror(error)
					       : "works");

	if (error != 0)
		doctor_next(c, "%s", error > 0 ? next : "Run it as root: sudo cay doctor");
}

void doctor_network(struct doctor *d)
{
	uint64_t on;

	check_one(d, "veth", try_veth,
		  "Sandboxes get no network without it: modprobe veth (CONFIG_VETH).");
	check_one(d, "nf_tables", try_nft,
		  "Sandboxes get no network without it: modprobe nf_tables nft_fib_inet nft_redir "
		  "nft_masq nft_reject_inet nft_log (CONFIG_NF_TABLES_INET and the like).");
	if (doctor_number("/proc/sys/net/ipv4/ip_forward", &on) == 0)
		(void)doctor_add(
			d, GROUP, CHECK_OK, "forwarding", "%s",
			on ? "on for the whole host; cay does not change it"
			   : "off; while a sandbox has 'network full', cay turns it on for "
			     "the links of the default routes only");
}
