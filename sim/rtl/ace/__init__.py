# SPDX-License-Identifier: Apache-2.0
"""ACE in RTL."""
