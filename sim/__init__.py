"""Systems: topologies, RTL in the loop, collectives, workloads, demonstrations and reports."""
