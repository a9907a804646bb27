# SPDX-License-Identifier: Apache-2.0
"""Packets and the link layer: header format, packing onto the wire, receive buffer."""
