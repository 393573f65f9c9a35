/* SPDX-License-Identifier: Apache-2.0 */
#include "face/kit/json/body.h"

#include <errno.h>

int body_check(int status, size_t limit, struct err *err)
{
	if (status == -EFBIG)
		return err_set(err, ERR_PAYLOAD_TOO_LARGE, "the body is larger than %zu bytes",
			       limit);
	if (status == -ETIMEDOUT)
		return err_set(err, ERR_REQUEST_TIMEOUT, "the body did not arrive in time");
	return status < 0 ? err_set(err, ERR_INVALID_REQUEST, "the body is malformed") : 0;
}

struct json *body_object(struct str body, struct err *err)
{
	struct json *doc = json_parse(body.n ? body : STR_LIT("{}"), err);

	if (!doc || json_type(doc) == JSON_OBJECT)
		return doc;
	json_free(doc);
	(void)err_set(err, ERR_INVALID_REQUEST, "the body must be a JSON object");
	return NULL;
}
