"""Which node is connected to which: rings, tori and lists of links."""
