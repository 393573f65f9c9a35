/* SPDX-License-Identifier: Apache-2.0 */
/* The procedures of envd. */
#include "face/e2b/envd/connect.h"

const struct rpc rpcs[] = {
	{ "/process.Process/Start", E2B_STREAM, process_start_call, false },
	{ "/process.Process/Connect", E2B_STREAM, process_connect_call, false },
	{ "/process.Process/List", E2B_UNARY, process_list_call, false },
	{ "/process.Process/SendInput", E2B_UNARY, process_input_call, false },
	{ "/process.Process/StreamInput", E2B_STREAM, process_stream_input_call, true },
	{ "/process.Process/CloseStdin", E2B_UNARY, process_close_call, false },
	{ "/process.Process/SendSignal", E2B_UNARY, process_signal_call, false },
	{ "/process.Process/Update", E2B_UNARY, process_update_call, false },
	{ "/filesystem.Filesystem/Stat", E2B_UNARY, filesystem_stat, false },
	{ "/filesystem.Filesystem/MakeDir", E2B_UNARY, filesystem_make_dir, false },
	{ "/filesystem.Filesystem/Move", E2B_UNARY, filesystem_move, false },
	{ "/filesystem.Filesystem/ListDir", E2B_UNARY, filesystem_list, false },
	{ "/filesystem.Filesystem/Remove", E2B_UNARY, filesystem_remove, false },
	{ "/filesystem.Filesystem/WatchDir", E2B_STREAM, watch_dir, false },
	{ "/filesystem.Filesystem/CreateWatcher", E2B_UNARY, watcher_create, false },
	{ "/filesystem.Filesystem/GetWatcherEvents", E2B_UNARY, watcher_events, false },
	{ "/filesystem.Filesystem/RemoveWatcher", E2B_UNARY, watcher_remove, false },
};
const size_t rpc_count = ARRAY_LEN(rpcs);
