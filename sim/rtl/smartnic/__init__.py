# SPDX-License-Identifier: Apache-2.0
"""The smart NIC in RTL."""
