/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WARDEN_CRIU_HOOK_H
#define CAY_WARDEN_CRIU_HOOK_H

#define CRIU_HOOK_SOCKET "/work/hook.sock" /* in the room CRIU runs in */
#define CRIU_HOOK_GO 1

#endif
