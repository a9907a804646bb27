# SPDX-License-Identifier: Apache-2.0
"""All-reduces of numpy arrays by an engine: as RTL, bit for bit and cycle by cycle, or golden."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike, NDArray

from gen.arguments import typed
from gen.brief import brief
from hw.common.axi import aligned
from hw.fp.ops import ReduceOp
from sim.engines import registry
from sim.fields import FieldError, check, check_type
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.hosts.vectors import Vectors, vectors_of
from sim.rtl.driver import EngineDriver, reduction

__all__ = ["AllReducer", "Reduced", "all_reduce"]

LEVELS = ("rtl", "golden")


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Reduced:
    """Result of an all-reduce.

    Parameters
    ----------
    vectors : list of arrays
        The result of each rank, in shape and type of what was given.
    cycles : int or None
        Clock cycles from the first register write to the last completion; None: golden.
    exact : bool
        All ranks hold the bits of the golden model: numpy, in the order of additions that the ring
        defines, with every rounding of the wire format.
    note : str
        Says what was converted for the engine, and back; empty if nothing was.
    """

    vectors: list[NDArray[Any]]
    cycles: int | None
    exact: bool
    note: str = ""

    def __repr__(self) -> str:
        how = "golden" if self.cycles is None else f"{self.cycles} cycles"
        words = [f"<Reduced {len(self.vectors)} x {brief(self.vectors[0])}: {how}",
                 "exact" if self.exact else "NOT exact", *([self.note] if self.note else [])]
        return f"{', '.join(words)}>"

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(repr(self))}</code>"


class AllReducer:
    """A ring of engines that all-reduces arrays, one per rank; call it as often as you like.

    Parameters
    ----------
    engine : str
        ``ace``, ``smartnic``, or ``in_switch``: endpoints at one switch.
    preset : str or None
        Named configuration; None for the smallest.
    format : str or None
        Block floating-point format in which data travel (NIC): a preset such as ``bfp16``, or
        ``16e8m8`` for blocks of 16 elements with 8 bits of exponent and 8 per element, sign
        included. None: binary32.
    level : str
        ``rtl``: the compiled RTL. ``golden``: numpy alone, the same bits in no time, for engines
        whose order of additions is fixed; that of switches is the one in which operands arrive.
    latency_cycles, threads : int
        Latency of every link; threads that run the RTL.

    Raises
    ------
    ValueError
        Naming the parameter, its value and what is allowed.
    """

    @typed("latency_cycles", "threads", most={"latency_cycles": 1 << 20, "threads": 1 << 12})
    def __init__(
        self,
        engine: str = "ace",
        *,
        preset: str | None = None,
        format: str | None = None,
        level: str = "rtl",
        latency_cycles: int = 90,
        threads: int = 1,
    ) -> None:
        self._record = registry.record(engine)
        if level not in LEVELS:
            raise FieldError("level", f"must be one of {', '.join(LEVELS)}, not {level!r}")
        driver = self._record.kind.driver
        if driver is None:
            known = [each.name for each in registry.records() if each.kind.driver is not None]
            raise FieldError("engine", f"must be one of {', '.join(known)}, not {engine!r}")
        self._driver: Any = driver
        if level == "golden" and not driver.order_is_fixed:
            what = f"its additions have the order in which operands arrive, not {level!r}"
            raise FieldError("level", f"must be rtl for {engine}: {what}")
        presets = self._record.presets
        name = next(iter(presets)) if preset is None else preset
        if name not in presets:
            raise FieldError("preset", f"must be one of {', '.join(presets)}, not {name!r}")
        config: Any = presets[name]
        if format is not None:
            config = self._record.in_format(config, format)
        for which, value in (("latency_cycles", latency_cycles), ("threads", threads)):
            ok = isinstance(value, int) and not isinstance(value, bool) and value > 0
            check(which, value, "an integer of at least 1", ok)
        self.config = config
        self.compress = format is not None
        self.level = level
        self.cycles = 0
        self._latency, self._threads = latency_cycles, threads
        self._ring: EngineDriver | None = None

    def compile(self) -> None:
        """Compile the RTL now, if it is not cached, instead of with the first vectors."""
        if self.level == "rtl":
            self._driver.compiled(self._record.group(self.config, 2))

    def __call__(
        self, vectors: Sequence[ArrayLike] | NDArray[Any], *, op: ReduceOp | str | None = None
    ) -> list[NDArray[Any]]:
        """The result of each rank; ``cycles`` accumulates the clock cycles of all calls."""
        return self.reduce(vectors, op=op).vectors

    def reduce(
        self, vectors: Sequence[ArrayLike] | NDArray[Any], *, op: ReduceOp | str | None = None
    ) -> Reduced:
        """All-reduce *vectors*, arrays of one shape and type, one per rank.

        Engines have float32, int32 and uint32. Other types are converted and the results rounded
        once to what was given, which ``note`` says.

        Parameters
        ----------
        op : ReduceOp, str or None
            Such as ``"max"`` or ``"max_f32"``; None for the sum in the type of the vectors.
        """
        check_type("op", op, "a ReduceOp, its name, or None", isinstance(op, ReduceOp | str | None))
        name = "sum" if op is None else op.name if isinstance(op, ReduceOp) else op
        given = vectors_of(vectors, sums=name.lower().startswith("sum"))
        arrays = given.flat
        if self.compress and arrays[0].dtype.kind != "f":
            raise FieldError(
                "vectors", f"must hold real numbers for a block format, not {given.dtype}"
            )
        chosen = reduction(op, arrays[0].dtype)
        ring = self._ring_for(len(arrays), len(arrays[0]))
        command = Command(elements=len(arrays[0]), op=chosen, compress=self.compress)
        if self.level == "golden":
            golden = self._driver.reduced_by(self.config, ring, command, arrays)
            return _restored(given, [golden] * len(arrays), cycles=None, exact=True)
        if self._ring is None or self._ring.settings != ring or not self._ring.order_is_fixed:
            group = self._record.group(self.config, len(arrays))
            self._ring = self._driver(group, ring, threads=self._threads)
        found = self._ring.all_reduce(arrays, op=chosen, compress=self.compress)
        done = self._ring.last_run
        assert done is not None
        self.cycles += done.cycles
        (expected,) = self._ring.expectations([command], [arrays])
        exact = all(
            each.tobytes() == golden.tobytes() for each, golden in zip(found, expected, strict=True)
        )
        return _restored(given, found, cycles=done.cycles, exact=exact)

    def _ring_for(self, nodes: int, elements: int) -> Surroundings:
        kept = 0 if self._ring is None else self._ring.settings.memory_bytes
        needed = 2 * aligned(4 * elements)
        return Surroundings(
            nodes=nodes,
            latency_cycles=self._latency,
            memory_bytes=max(kept, needed),
        )


def _restored(
    given: Vectors, results: Sequence[NDArray[Any]], *, cycles: int | None, exact: bool
) -> Reduced:
    restored = [given.restored(each) for each in results]
    return Reduced(
        vectors=restored, cycles=cycles, exact=exact, note=given.note_on(results[0])
    )


@typed("vectors", "op")
def all_reduce(
    vectors: Sequence[ArrayLike] | NDArray[Any],
    *,
    engine: str = "ace",
    preset: str | None = None,
    format: str | None = None,
    op: ReduceOp | str | None = None,
    level: str = "rtl",
) -> Reduced:
    """All-reduce *vectors*, an array per rank, by the RTL of an engine; see :class:`AllReducer`.

    ``all_reduce(gradients, engine="smartnic", format="bfp16")`` returns bits and cycles.
    """
    return AllReducer(engine, preset=preset, format=format, level=level).reduce(vectors, op=op)
