# SPDX-License-Identifier: Apache-2.0
"""Progress of a run, seen from outside while the kernel works on its arrays."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TypeAlias

from sim.events.check import messages_due
from sim.events.kernel import constants
from sim.events.lower import Lowered
from sim.network.network import Network

__all__ = ["Report", "reported", "share_done"]

Report: TypeAlias = Callable[[float], None]
"""Called now and then with the share of the work, 0 to 1, that is done."""

EVERY_S = 0.25


def share_done(network: Network, lowered: Lowered) -> Callable[[], float]:
    """Function that tells the share of all messages, of collectives and transfers, sent so far."""
    state = lowered.state
    transfers = state.chunks[int(state.numbers[constants.FIRST_TRANSFER]) :]
    due = int(messages_due(network, lowered).sum())
    due += int(state.phases["messages"][transfers["phase"]].sum())
    return lambda: min(1.0, int(state.messages.sum()) / due) if due else 0.0


@contextmanager
def reported(network: Network, lowered: Lowered, report: Report | None) -> Iterator[None]:
    """Report from a thread of its own while the kernel, which holds no lock, runs."""
    if report is None:
        yield
        return
    over = Event()

    def watch(report: Report) -> None:
        share = None
        while not over.wait(EVERY_S):
            share = share or share_done(network, lowered)
            report(share())

    watcher = Thread(target=watch, args=(report,), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
