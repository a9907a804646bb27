# SPDX-License-Identifier: Apache-2.0
"""The bench of the benches: the runner must notice tests that fail, hang up or do not exist."""
