/* SPDX-License-Identifier: Apache-2.0 */
/* The procedures of envd. A procedure without .body reads its body itself, as a stream of
 * envelopes. */
#include "face/e2b/envd/connect.h"

#define RPC(path) ROUTE(POST, path, 0, ROUTE_TOKEN)

static const struct e2b_route rpcs[] = {
	{ RPC("/process.Process/Start"), process_start_call, .style = E2B_STREAM, .body = true },
	{ RPC("/process.Process/Connect"), process_connect_call, .style = E2B_STREAM,
	  .body = true },
	{ RPC("/process.Process/List"), process_list_call, .style = E2B_UNARY, .body = true },
	{ RPC("/process.Process/SendInput"), process_input_call, .style = E2B_UNARY, .body = true },
	{ RPC("/process.Process/StreamInput"), process_stream_input_call, .style = E2B_STREAM },
	{ RPC("/process.Process/CloseStdin"), process_close_call, .style = E2B_UNARY,
	  .body = true },
	{ RPC("/process.Process/SendSignal"), process_signal_call, .style = E2B_UNARY,
	  .body = true },
	{ RPC("/process.Process/Update"), process_update_call, .style = E2B_UNARY, .body = true },
	{ RPC("/filesystem.Filesystem/Stat"), filesystem_stat, .style = E2B_UNARY, .body = true },
	{ RPC("/filesystem.Filesystem/MakeDir"), filesystem_make_dir, .style = E2B_UNARY,
	  .body = true },
	{ RPC("/filesystem.Filesystem/Move"), filesystem_move, .style = E2B_UNARY, .body = true },
	{ RPC("/filesystem.Filesystem/ListDir"), filesystem_list, .style = E2B_UNARY,
	  .body = true },
	{ RPC("/filesystem.Filesystem/Remove"), filesystem_remove, .style = E2B_UNARY,
	  .body = true },
	{ RPC("/filesystem.Filesystem/WatchDir"), watch_dir, .style = E2B_STREAM, .body = true },
	{ RPC("/filesystem.Filesystem/CreateWatcher"), watcher_create, .style = E2B_UNARY,
	  .body = true },
	{ RPC("/filesystem.Filesystem/GetWatcherEvents"), watcher_events, .style = E2B_UNARY,
	  .body = true },
	{ RPC("/filesystem.Filesystem/RemoveWatcher"), watcher_remove, .style = E2B_UNARY,
	  .body = true },
};

const struct route_table e2b_procedure_table = { .face = "envd", ROUTE_ROWS(rpcs) };
