"""Systems: networks, workloads, events, cycle models, RTL in the loop, and results."""
