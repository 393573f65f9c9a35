# SPDX-License-Identifier: Apache-2.0
"""The harness that the suites of security, conformance, e2e and fault share."""
