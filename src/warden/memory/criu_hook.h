/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WARDEN_MEMORY_CRIU_HOOK_H
#define CAY_WARDEN_MEMORY_CRIU_HOOK_H

#define CRIU_HOOK_SOCKET "/work/hook.sock" /* in CRIU's mount namespace */
#define CRIU_HOOK_GO 1
/* The file that freezes a cgroup of version 2: CRIU's name for it, open when CRIU starts. */
#define CRIU_FREEZE_FILE "/freezer/cgroup.freeze"
#define CRIU_FREEZE_FD 3
/* Environment: the id that owns the user namespace which CRIU makes. */
#define CRIU_OWNER "CAY_OWNER"

#endif
