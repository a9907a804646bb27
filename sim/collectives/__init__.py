"""Collective algorithms, written once: plans for events, programs for FSMs, golden results."""
