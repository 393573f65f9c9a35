/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WARDEN_MEMORY_CRIU_HOOK_H
#define CAY_WARDEN_MEMORY_CRIU_HOOK_H

#define CRIU_HOOK_SOCKET "/work/hook.sock" /* in the room CRIU runs in */
#define CRIU_HOOK_GO 1
/* The file that freezes a cgroup of version 2: as CRIU names it, and open when it starts. */
#define CRIU_FREEZE_FILE "/freezer/cgroup.freeze"
#define CRIU_FREEZE_FD 3

#endif
