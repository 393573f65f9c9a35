# SPDX-License-Identifier: Apache-2.0
"""The tests in guest/ run only in a virtual machine that the harness created."""
import os

collect_ignore_glob = [] if os.environ.get("CAY_IN_MACHINE") == "1" else ["guest/*"]
