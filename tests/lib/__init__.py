# SPDX-License-Identifier: Apache-2.0
"""The harness of the security, conformance, e2e and fault suites."""
