# SPDX-License-Identifier: Apache-2.0
"""The checks of conservation: sound runs pass them, and each of them notices its fault."""

from collections.abc import Callable

import numpy as np
import pytest

from sim.collectives.plan import AlgorithmChoice
from sim.endpoint.kinds import KINDS, endpoint
from sim.events import check, simulate
from sim.events.lower import Lowered
from sim.events.lowering import Lowering
from sim.events.record import RunRecord
from sim.events.scheduler import Scheduler
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

NETWORK = Network(
    [
        Dimension.ring(4, 25e9, 50e-9),
        Dimension.switch(4, 10e9, 50e-9),
    ]
)


def job(kind: CollectiveKind) -> Job:
    graph, before = GraphBuilder(), None
    for number in range(3):
        before = graph.add(f"work {number}", TaskKind.COMPUTE, [before], duration_s=1e-6)
        call = CollectiveCall(kind=kind, size_bytes=50001)
        graph.add(f"collective {number}", TaskKind.COLLECTIVE, [before], call=call)
    return Job(name="some", graphs=(graph.graph(),))


def run(kind: CollectiveKind, **changes: object) -> RunRecord:
    values: dict[str, object] = {"scheduler": Scheduler(splits=6), "check": True, "fold": "off"}
    return simulate.simulate(NETWORK, job(kind), **{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", list(CollectiveKind), ids=lambda kind: kind.value)
@pytest.mark.parametrize("granularity", ["message", "packet"])
@pytest.mark.parametrize("fold", ["auto", "off"])
def test_sound_runs_balance(kind: CollectiveKind, granularity: str, fold: str) -> None:
    for style in ("baseline", "multi_colour"):
        choice = AlgorithmChoice(style=style)
        assert run(kind, granularity=granularity, fold=fold, algorithms=choice).end_fs > 0


@pytest.mark.parametrize("name", KINDS)
def test_every_endpoint_balances(name: str) -> None:
    assert run(CollectiveKind.ALL_REDUCE, endpoint=endpoint(name)).end_fs > 0


def fault(change: Callable[[Lowered], None]) -> Callable[[pytest.MonkeyPatch], None]:
    """Tampers with the arrays between the run and the check."""

    def install(patch: pytest.MonkeyPatch) -> None:
        real = check.what_is_wrong

        def tampered(network: Network, lowered: Lowered, end_fs: int) -> str | None:
            change(lowered)
            return real(network, lowered, end_fs)

        patch.setattr(simulate, "what_is_wrong", tampered)

    return install


def increase(name: str, index: int = 5) -> Callable[[Lowered], None]:
    def change(lowered: Lowered) -> None:
        getattr(lowered.state, name)[index] += 1

    return change


def keep_channel(lowered: Lowered) -> None:
    assert lowered.packets is not None
    lowered.packets.lanes["free"][3] -= 1


def keep_packet(lowered: Lowered) -> None:
    assert lowered.packets is not None
    lowered.packets.ports["first"][2] = 0


def too_busy(lowered: Lowered) -> None:
    lowered.state.link["busy"][7] = 1 << 60


def carry_more(lowered: Lowered) -> None:
    lowered.state.link["bytes"][5] += 1


def keep_slot(lowered: Lowered) -> None:
    from sim.events.kernel import constants

    lowered.state.numbers[constants.FREE_SLOTS] -= 1


FAULTS = {
    "link 5 carried": carry_more,
    "messages in phase": increase("messages", 2),
    "chunks in a scheduling queue": increase("queue_used", 1),
    "bytes in a partition": increase("partition_used", 0),
    "records of chunks in use": keep_slot,
    "taken virtual channels": keep_channel,
    "packets are left": keep_packet,
    "a link was busy": too_busy,
}


@pytest.mark.parametrize("text", FAULTS)
def test_what_does_not_balance_is_named(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(FAULTS[text])(monkeypatch)

    with pytest.raises(simulate.SimulationError, match=f"does not balance: .*{text}"):
        run(CollectiveKind.ALL_REDUCE, granularity="packet")


def test_a_message_too_many_or_too_few_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One message more than a phase's programs send: the same as one that was lost."""
    real = Lowering._expected

    def one_more(self: Lowering, phase: object) -> int:
        first = real(self, phase)  # type: ignore[arg-type]
        if self.check:
            self.expected[-1] = (
                self.expected[-1] + np.eye(1, self.expected[-1].size, 3, np.int32)[0]
            )
        return first

    monkeypatch.setattr(Lowering, "_expected", one_more)
    for granularity in ("message", "packet"):
        with pytest.raises(simulate.SimulationError, match="ended without exactly the messages"):
            run(CollectiveKind.ALL_REDUCE, granularity=granularity)
    assert run(CollectiveKind.ALL_REDUCE, check=False).end_fs > 0
