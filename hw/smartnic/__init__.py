# SPDX-License-Identifier: Apache-2.0
"""The smart NIC: ring all-reduce on the way between host memory and an Ethernet port."""
