# SPDX-License-Identifier: Apache-2.0
"""Random strings planted where no sandbox has access. A test fails if one appears in a sandbox's output."""

import secrets

planted = {}  # flag -> (where it is, the sandbox that may know it or None)


def plant(where, owner=None):
    flag = "FLAG" + secrets.token_hex(16)
    planted[flag] = (where, owner)
    return flag


def forget(flag):
    planted.pop(flag, None)


def check(sandbox, data):
    for flag, (where, owner) in planted.items():
        assert owner == sandbox or flag.encode() not in data, \
            f"sandbox {sandbox} read the flag planted in {where}"
