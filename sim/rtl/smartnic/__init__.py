"""The smart NIC in RTL."""
