"""The ACE endpoint engine: programmable collectives next to the fabric interface."""
