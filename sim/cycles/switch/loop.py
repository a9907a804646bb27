# SPDX-License-Identifier: Apache-2.0
"""The cycle loop: endpoints with their lanes, and switches."""

from sim.cycles.queues import there
from sim.cycles.switch.buffers import give
from sim.cycles.switch.crossbar import land, switch
from sim.cycles.switch.lane import begin, done, lane
from sim.cycles.switch.notes import PACKET
from sim.cycles.switch.software import software
from sim.cycles.switch.state import ITEMS
from sim.native.mark import compiled

__all__ = ["run_until"]


@compiled
def run_until(s, now, end):
    """Simulate from cycle *now* to before *end*, or until all jobs are done and all ordinary
    packets have arrived; returns the cycle that was reached. Ordinary sources stop when the jobs
    are done. With switches or endpoints elsewhere all cycles are simulated."""
    _admit(s)
    while now < end:
        left = 0
        for endpoint in range(s.endpoint.size):
            if s.endpoint[endpoint].elsewhere:
                continue
            if s.c[0].messages:
                left += software(s, endpoint, now)
            else:
                left += _endpoint(s, endpoint, now)
        for w in range(s.c[0].switches):
            if not s.elsewhere[w]:
                switch(s, w, now)
        now += 1
        if left == 0 and not s.c[0].mixed:
            s.c[0].ordinary_on = 0
            if s.c[0].ordinary_under_way == 0:
                break
    return now


@compiled
def _endpoint(s, endpoint, now):
    """Simulate one cycle of an endpoint; returns 1 if it has jobs to do, else 0.

    Conditions for the begin and end of a job are read as they were when the cycle began.
    """
    links = s.c[0].links
    p = s.endpoint[endpoint]
    whole = True
    for n in range(endpoint * links, (endpoint + 1) * links):
        e = s.lane[n]
        if p.running:
            whole = whole and done(e)
        else:
            whole = whole and not e.active and not there(e, s.slots, ITEMS, now)
    for n in range(endpoint * links, (endpoint + 1) * links):
        lane(s, n, now)
    if p.running:
        if p.ends:  # known a cycle after it is so
            s.job[endpoint, p.job].done_at = now
            p.running = p.ends = 0
            p.job += 1
        elif whole:
            p.ends = 1
    elif p.job < s.job.shape[1] and s.job[endpoint, p.job].given_at <= now and whole:
        p.running = 1
        for n in range(endpoint * links, (endpoint + 1) * links):
            begin(s.lane[n], s.job[endpoint, p.job])
    return 1 if p.job < s.job.shape[1] else 0


@compiled
def _admit(s):
    """Take in packets and credits from elsewhere."""
    for n in range(s.c[0].admitted):
        row = s.inbox[n]
        if row.kind == PACKET:
            land(s, row.place, row.header, row.low, row.high, row.cycle)
        else:
            give(s, s.output[row.place].pool + row.header, row.cycle)
    s.c[0].admitted = 0
