/* SPDX-License-Identifier: Apache-2.0 */
#include "face/e2b/connect.h"

#include <errno.h>

int envelope_next(struct str bytes, size_t limit, struct str *ret_message, size_t *ret_used,
		  bool *ret_end)
{
	const unsigned char *p = (const unsigned char *)bytes.p;
	size_t n;

	if (bytes.n == 0)
		return 0;
	if (p[0] != ENVELOPE_MESSAGE && p[0] != ENVELOPE_END)
		return -EINVAL;
	if (bytes.n < ENVELOPE_HEAD)
		return 0;
	n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
	if (n > limit)
		return -EFBIG;
	if (bytes.n - ENVELOPE_HEAD < n)
		return 0;
	*ret_message = (struct str){ bytes.p + ENVELOPE_HEAD, n };
	*ret_used = ENVELOPE_HEAD + n;
	*ret_end = p[0] == ENVELOPE_END;
	return 1;
}

int envelope_begin(struct buf *out)
{
	static const char head[ENVELOPE_HEAD];

	return buf_append(out, head, sizeof(head));
}

void envelope_close(struct buf *out, size_t begin)
{
	unsigned char *p = (unsigned char *)buf_data(out) + begin;
	size_t n = buf_len(out) - begin - ENVELOPE_HEAD;

	p[1] = (unsigned char)(n >> 24);
	p[2] = (unsigned char)(n >> 16);
	p[3] = (unsigned char)(n >> 8);
	p[4] = (unsigned char)n;
}

int envelope_end(struct buf *out, const char *code, const char *message)
{
	size_t begin = buf_len(out);
	struct json_writer w;
	int r = envelope_begin(out);

	if (r < 0)
		return r;
	json_writer_init(&w, out);
	json_begin_object(&w, NULL);
	if (code) {
		json_begin_object(&w, "error");
		json_put_text(&w, "code", code);
		json_put_text(&w, "message", message);
		json_end_object(&w);
	}
	json_end_object(&w);
	r = json_writer_end(&w);
	if (r < 0)
		return r;
	envelope_close(out, begin);
	buf_data(out)[begin] = ENVELOPE_END;
	return 0;
}

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
