"""Collective algorithms: plans for events, programs for FSMs, and golden results."""
