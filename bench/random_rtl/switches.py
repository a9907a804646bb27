# SPDX-License-Identifier: Apache-2.0
"""Endpoints on switches that reduce, all RTL: push and pull, one switch or a tree, with retry or
without, one region or two."""

from collections.abc import Sequence

from bench.random_rtl.switch_cases import CLASSES, PARTS, Case, draw_case, draw_engines
from bench.random_rtl.switch_faults import FaultyCollectives
from bench.random_rtl.trial import Attempt, Finding, Kind, run_trial
from hw.switch.packet import AbortCause
from hw.switch_dma.layouts import Part

__all__ = ["SWITCHES", "SwitchTrial", "run_case"]

# Faults that software must not notice at all.
_UNNOTICED = ("packet repeated", "eviction storm", "region reprogrammed")
# Causes that the abort register must show.
_CAUSES = {
    "operations differ": AbortCause.DISAGREEMENT,
    "lengths differ": AbortCause.DISAGREEMENT,
    "modes differ": AbortCause.DISAGREEMENT,
}


class SwitchTrial(FaultyCollectives):
    """Collectives on the system of a case, and the promises for the one with the fault."""

    leftovers = frozenset({"dropped"})  # partials leave tables late, in a past epoch

    def promised(self, attempts: Sequence[Attempt]) -> list[str]:
        """Aborts reach all members, other regions work on, and the fault's own promises hold."""
        case, found = self.case, []
        regions = self.regions if case.fault == "region reprogrammed" else {0: self.victims}
        concerned = [k for members in regions.values() for k in members]
        said = {k: attempts[k].reports for k in concerned}
        what = {k: str(attempts[k]) for k in concerned}
        for k, each in enumerate(attempts):
            if k not in concerned and (not each.exact or each.reports):
                found.append(f"endpoint {k} of another region: {each}")
        aborted = [k for k in concerned if "aborted" in said[k]]
        expected = concerned
        if case.fault == "endpoint reset":
            expected = [k for k in concerned if "reset" in said[k] or attempts[k].finished]
        if aborted and case.fault != "endpoint reset" and len(aborted) < len(concerned):
            found.append(f"given up by some alone: {what}")
        invalid = [k for k in concerned if "read" in said[k]]
        poisons = ("memory refuses a read", "operand outside")
        if case.fault in poisons and len(invalid) < len(concerned):
            found.append(f"not invalid everywhere: {what}")
        if case.fault == "memory refuses a write":
            writes = [k for k in concerned if "write" in said[k]]
            if len(writes) != 1 or any(said[k] for k in concerned if k not in writes):
                found.append(f"not invalid there alone: {what}")
        cause = _CAUSES.get(case.fault)
        if self._unheeded():
            cause = None
        if cause is not None and not all(cause.name.lower() in said[k] for k in expected):
            found.append(f"no {cause.name.lower()}: {what}")
        noticed = any(said[k] - {"dropped"} for k in concerned)
        unnoticed = case.fault in _UNNOTICED or self._unheeded() or (
            case.fault.startswith("packet") and case.engine.retry is not None
        )
        if noticed and (unnoticed or case.fault == "bad packets"):
            found.append(f"software was told: {what}")
        if case.fault == "operand outside" and self.miscounted:
            found.append(f"operands outside are miscounted by members {self.miscounted}")
        if case.fault == "bad packets" and self.missed > 0:
            found.append(f"{self.missed} bad packets were not counted")
        if case.fault == "eviction storm" and not self._gave_way():
            found.append("no entry gave way")
        return found

    def _unheeded(self) -> bool:
        """True if a differing operation has no effect, since parts are sent as they are."""
        return (self.case.fault == "operations differ"
                and PARTS.get(self.case.what) is Part.SEND)

    def _gave_way(self) -> int:
        counters = [switch.counters() for switch in self.system.switches]
        return sum(each.get(name, 0) for each in counters for name in ("evicted", "expired"))


def run_case(case: Case) -> Finding:
    """Run a clean collective, one with the fault, and a clean one again."""
    return run_trial(case, SwitchTrial, (AssertionError,))


SWITCHES = Kind(
    name="switches", classes=CLASSES, engines=10, clean=30, per_class=10, least=(6, 30, 10),
    draw_engines=draw_engines, draw_case=draw_case, collective=lambda case: case.what,
    run=run_case,
)
"""Switches with endpoints."""
