# SPDX-License-Identifier: Apache-2.0
"""Collectives through the reduction tables and multicast regions of switches (NVLink SHARP).

The links of a plane form its tree: members at a switch, or at leaves that a spine joins, or at two
leaves joined directly (DGX-2). Data pass each link of it once, up and down, in *sweeps*:

* push: every member writes its operands; where they meet they are reduced, and the result is
  multicast.
* pull: a member multicasts requests for the block that it is responsible for; the others answer,
  answers are reduced on their way back, the member adds its own operand and multicasts the sum.

A wave is done by all members at once, so the requests of a wave are one sweep of messages without
payload (their headers count in the share of payload of the links), and answers leave when all
members have asked: a request is also the barrier that keeps it from fetching stale data.

Source: Klenk et al., ISCA 2020, sections III and IV.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sim.collectives.phases import group_ranks
from sim.collectives.program import (
    Phase,
    Program,
    Segment,
    Send,
    Source,
)
from sim.collectives.sweeps import Sweeps
from sim.collectives.turns import turns
from sim.fields import FieldError
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = ["MODES", "PULL_TURNS", "PULL_WHOLE", "PUSH_HOME", "in_switch_phase"]

MODES = ("push", "pull")

PUSH_HOME = "push home"
"""Push in which all operands of an address meet in one table, at the switch of its home endpoint,
so that links between switches carry the operands of all members below."""

PULL_TURNS = "pull turns"
"""Pull in which members take turns to request blocks: a load takes table entries on its way, each
member answers when the load arrives, and the sum goes on when all answers are there
(`sim.collectives.turns`). All-reduces only; other collectives run as in pull."""

PULL_WHOLE = "pull whole"
"""Pull in which the requester answers as well: its own operand travels to the switch like all
others (NVLink SHARP, whose load with reduction reads every replica)."""

Indices = NDArray[np.int64]


def in_switch_phase(
    network: Network,
    dimension: int,
    kind: CollectiveKind,
    mode: str,
    *,
    data: float,
    prior: Source,
    ring: int,
) -> Phase:
    """A collective in the groups of one dimension, done by the switches of one of its planes.

    Parameters
    ----------
    network, dimension, kind
    mode : str
        ``push``, ``pull``, `PUSH_HOME`, `PULL_TURNS` or `PULL_WHOLE`; all-gather and broadcast are
        multicasts in all.
    data : float
        Size of a node's data at the start of the phase over that of the chunk.
    prior : Source
        Source of the data of the first send.
    ring : int
        The plane.

    Raises
    ------
    ValueError
        For a collective that switches do not do, or a link that is down.
    """
    sweeps = Sweeps(network, dimension, ring)
    size = network.shape[dimension]
    block = data / size
    one = CollectiveKind.ALL_REDUCE
    out = data
    if kind is one and mode == PULL_TURNS:
        begin = turns(sweeps, block, prior)
        return _phase(sweeps, kind, mode, [begin], data, out, ring, count=size)
    if mode == PULL_TURNS:
        mode = "pull"
    travels = mode == PULL_WHOLE
    if kind is one and mode == "push":
        steps = [sweeps.whole(data, prior)]
    elif kind is one and mode == PUSH_HOME:
        steps = [sweeps.home_push(data, prior)]
    elif kind is one:
        steps = [
            sweeps.requests(prior),
            sweeps.scatter(block, Source.FRESH, slot=1, own=travels),
            sweeps.gather(block, Source.FORWARD, slot=2),
        ]
    elif kind is CollectiveKind.REDUCE_SCATTER:
        steps = [sweeps.scatter(block, prior, slot=0, own=True)]
        if mode in ("pull", PULL_WHOLE):
            answers = sweeps.scatter(block, Source.FRESH, slot=1, own=travels)
            steps = [sweeps.requests(prior), answers]
        out = block
    elif kind is CollectiveKind.ALL_GATHER:
        steps = [sweeps.gather(data, prior, slot=0)]
        out = data * size
    elif kind is CollectiveKind.BROADCAST:
        steps = [sweeps.broadcast(data, prior)]
    else:
        raise FieldError("switches", f"do no {kind.value}; its messages travel as ordinary ones")
    return _phase(sweeps, kind, mode, [(send,) for send in steps], data, out, ring)


def _phase(
    sweeps: "Sweeps",
    kind: CollectiveKind,
    mode: str,
    steps: Sequence[tuple[Send, ...]],
    data: float,
    out: float,
    ring: int,
    *,
    count: int = 1,
) -> Phase:
    """A phase whose steps each wait for one message, and whose end waits for *count*."""
    network, dimension = sweeps.network, sweeps.dimension
    segments = [
        Segment(steps=1, slot=max(0, number - 1), count=min(1, number), sends=(sends,))
        for number, sends in enumerate(steps)
    ]
    last = len(steps) - 1
    end = Segment(steps=1, slot=last, count=count)
    programs = [Program(segments=(*segments, end), slots=last + 1)]
    rank = group_ranks(network, [dimension])
    role = np.zeros(network.nodes, np.int64)
    if kind is CollectiveKind.BROADCAST:
        # The root has what the others wait for.
        programs = [Program(segments=(segments[0],)), Program(segments=(programs[0].segments[1],))]
        role = np.minimum(rank, 1)
    return Phase(
        name=f"{mode} {kind.value} dim {dimension}".replace("_", "-"),
        dimension=dimension,
        ring=ring,
        programs=tuple(programs),
        data_in=data,
        data_out=out,
        leaves=Source.HELD,
        role=role,
        kind=kind,
        group=(dimension,),
    )
