/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/isolate.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int isolate_find_user(const char *name, struct isolate_user *ret, struct err *err)
{
	const struct passwd *entry;

	errno = 0;
	entry = getpwnam(name);
	if (!entry)
		return err_set(err, ERR_INVALID_REQUEST,
			       "there is no user '%s': make it with 'useradd --system %s', or name "
			       "another with --user",
			       name, name);
	if (entry->pw_uid == 0)
		return err_set(err, ERR_INVALID_REQUEST,
			       "the daemon does not run as root: --user must be another one");
	*ret = (struct isolate_user){ entry->pw_uid, entry->pw_gid };
	return 0;
}

static int drop_bounding(void)
{
	for (int cap = 0; cap <= 63; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
			return -errno;
	return 0;
}

static int clear_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 }, { 0 } };

	if (syscall(SYS_capset, &header, data) < 0)
		return -errno;
	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ? -errno : 0;
}

int isolate_lock_down(struct err *err)
{
	int r = clear_capabilities();

	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = -errno;
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "cannot give up privileges") : 0;
}

/*
 * Set explicitly in both directions, because on most hosts the change of user has already hidden
 * it.
 */
int isolate_hide(bool hidden, struct err *err)
{
	if (prctl(PR_SET_DUMPABLE, !hidden, 0, 0, 0) < 0)
		return err_set_errno(err, ERR_INTERNAL, errno, "cannot hide the daemon's memory");
	return 0;
}

/* Verifies the result, in case the kernel kept a way back. */
static int check_gone(const struct isolate_user *user)
{
	uid_t r, e, s;

	if (getresuid(&r, &e, &s) < 0 || r != user->uid || e != user->uid || s != user->uid)
		return -EPERM;
	if (setuid(0) == 0 || seteuid(0) == 0)
		return -EPERM;
	return 0;
}

int isolate_drop(const struct isolate_user *user, struct err *err)
{
	int r = drop_bounding();

	if (r == 0 && (setgroups(0, NULL) < 0 || setresgid(user->gid, user->gid, user->gid) < 0 ||
		       setresuid(user->uid, user->uid, user->uid) < 0))
		r = -errno;
	if (r == 0)
		r = check_gone(user);
	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "cannot become user %u", user->uid);
	return isolate_lock_down(err);
}
