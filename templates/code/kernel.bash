# SPDX-License-Identifier: Apache-2.0
# A bash that keeps its state from code to code: three NUL-ended texts on descriptor 3 (before, the
# code, after), an answer on 4.
trap : INT
while IFS= read -r -d '' -u 3 __cay_before && IFS= read -r -d '' -u 3 __cay_code &&
	IFS= read -r -d '' -u 3 __cay_after; do
	eval "$__cay_before"
	eval "$__cay_code" 3<&- 4>&-
	__cay_status=$?
	eval "$__cay_after"
	if [ "$__cay_status" = 0 ]; then
		printf '{}\0' >&4
	else
		printf '{"error":{"name":"CommandFailed","value":"exit status %d"}}\0' "$__cay_status" >&4
	fi
done
