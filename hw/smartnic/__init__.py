"""The smart NIC: ring all-reduce on the way between host memory and an Ethernet port."""
