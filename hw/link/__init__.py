"""Packets and the link layer: header format, packing onto the wire, receive buffer."""
