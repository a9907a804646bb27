# SPDX-License-Identifier: Apache-2.0
"""Common parts of the engines whose commands are all-reduces of a vector in memory.

These are settings, registers and interrupts, and the queue that checks commands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.engine import ELEMENT_BYTES, EngineConfig
from hw.common.engine_registers import (
    EngineRegisters,
    counter_registers,
    memory_end_registers,
    number_register,
    outcome_registers,
    record,
    wide_registers,
)
from hw.common.fifo import StreamFIFO
from hw.common.params import require_field
from hw.common.records import RecordQueue, record_registers
from hw.common.register_map import Field, Register, RegisterMap
from hw.common.watchdog import Watchdog

__all__ = [
    "AllReduceConfig",
    "AllReduceQueue",
    "AllReduceRegisters",
    "abort_register",
    "all_reduce_interrupts",
    "all_reduce_registers",
    "command_register",
    "control_register",
    "vector_registers",
    "watchdog_register",
]


@dataclass(frozen=True, kw_only=True)
class AllReduceConfig(EngineConfig):
    """Base of the configurations, with the settings of memory and queue.

    Parameters
    ----------
    max_burst : int
        Most beats of an AXI4 burst, a power of two up to 256.
    outstanding_bursts : int
        AXI4 bursts under way per master and direction, 1 to 256.
    address_bits : int
        Width of a memory address, 24 to 64.
    descriptors : int
        All-reduces that may be queued or running at a time, 2 to 64.
    """

    max_burst: int = 16
    outstanding_bursts: int = 32
    address_bits: int = 64
    descriptors: int = 16

    def __post_init__(self) -> None:
        number = partial(require_field, self)
        number("max_burst", 1, 256, power_of_two=True)
        number("outstanding_bursts", 1, 256)
        number("address_bits", 24, 64)
        number("descriptors", 2, 64)

    @property
    def memory_master(self) -> dict[str, int]:
        """Parameters of what drives a memory port, a `hw.common.axi.BurstMaster`."""
        return {
            "addr_width": self.address_bits,
            "data_width": 8 * self.bus_bytes,
            "max_burst": self.max_burst,
            "outstanding": self.outstanding_bursts,
        }


def all_reduce_interrupts(*, dropped: str, everywhere: str, elsewhere: str) -> dict[str, str]:
    """Causes of an interrupt, from bit 0 upwards, with their meanings.

    The words are for the document: what is *dropped*, who gives up *everywhere*, and where memory
    may have refused an access *elsewhere*.
    """
    return {
        "done": "An all-reduce has completed.",
        "refused": "A command was refused; see `refusal`.",
        "dropped": f"{dropped} was dropped; the counters say why.",
        "aborted": f"All all-reduces were given up, here and on {everywhere}; `abort` says why.",
        "memory": "Memory here answered with an error.",
        "invalid": "The result of an all-reduce is not valid: memory refused an access, here or "
        f"at {elsewhere}; see `invalid`.",
        "stalled": "Nothing has moved for as long as `watchdog` says.",
        "fault": "A register access was answered with an error.",
    }


def vector_registers(address_bits: int) -> list[Register]:
    """Registers for the addresses of an all-reduce's vector and result, and the end of memory."""
    return [
        *memory_end_registers(address_bits),
        *wide_registers("source", "Address of the local vector."),
        *wide_registers(
            "destination",
            "Address of the result: that of the local vector, or of memory apart from it.",
        ),
        number_register("elements", "Elements of the vector."),
    ]


def command_register(who: str, *fields: Field) -> Register:
    """The register that starts an all-reduce: tag and *fields*; *who* give the same commands."""
    tag = Field("tag", 8, "Any name; comes back in `completion`, `completed` and `refusal`.")
    return Register(
        "command",
        "wo",
        [tag, *fields],
        f"Queues an all-reduce with the parameters above. All {who} queue the same ones in the "
        "same order, tags included, or all abort.",
    )


def watchdog_register(bits: int, *fields: Field, doc: str = "") -> Register:
    """The register of a `hw.common.watchdog.Watchdog`: its limit, *bits* wide, and the reaction."""
    cycles = Field("cycles", bits, "Without progress until `stalled`; 0 for never.")
    return Register(
        "watchdog",
        "rw",
        [cycles, *fields, Field("abort", 1, "And then abort.")],
        f"Watches over outstanding all-reduces.{doc}",
    )


def abort_register(causes: type, origin: Field) -> Register:
    """Why all-reduces were given up, one of *causes*, and by whom."""
    cause = Field("cause", causes, "Why all all-reduces were given up last.")
    return Register("abort", "ro", [cause, origin], "The last abort.")


def control_register(everywhere: str, *fields: Field, once: str = "") -> Register:
    """The register that aborts, here and on *everywhere*; *once*: what new commands wait for."""
    abort = Field("abort", 1, f"Give up all all-reduces, here and on {everywhere}.")
    return Register(
        "control",
        "wo",
        [*fields, abort],
        f"After an abort, once its interrupt is cleared{once}, commands may be given again. The "
        "results of what was given up are undefined.",
    )


def _causes(elsewhere: str) -> dict[str, str]:
    """Why a result is not valid: memory refused an access, here or *elsewhere*."""
    return {
        "read": f"A read was refused, here or at {elsewhere}.",
        "write": "A write was refused here.",
    }


def _invalid_register(elsewhere: str) -> Register:
    """Which all-reduces memory spoilt, here or *elsewhere*."""
    return Register(
        "invalid",
        "ro",
        [
            *(Field(name, 1, doc) for name, doc in _causes(elsewhere).items()),
            Field("tag", 8, "Which all-reduce it was, the last of them."),
            Field("count", 16, "All-reduces completed without a valid result."),
        ],
        "Results that are not valid.",
    )


def all_reduce_registers(
    *,
    of: str,
    elsewhere: str,
    status: Sequence[Field],
    errors: type,
    interrupts: Mapping[str, str],
    counters: Mapping[str, str],
    count: int,
) -> list[Register]:
    """Registers of the outcomes of all-reduces, here or *elsewhere*: `outcome_registers` with a tag
    per command, completion records, and *counters* (name -> meaning), *count* of each."""
    outcomes = outcome_registers(
        of=of,
        tag="tag",
        status=[Field("outstanding", 7, "All-reduces accepted and not completed."), *status],
        completed=[
            Field("count", 23, "All-reduces completed."),
            Field("error", 1, "The result of the last of them is not valid."),
        ],
        errors=errors,
        interrupts=interrupts,
    )
    records = record_registers(
        causes=_causes(elsewhere), errors=errors, tag="tag",
        no_record="Commands that were given up by an abort have none.",
    )
    counted = {name: ("count", doc) for name, doc in counters.items()}
    return [
        _invalid_register(elsewhere), *outcomes, *records,
        *counter_registers(counted, count=count),
    ]


class AllReduceQueue(wiring.Component):
    """Base of the queues of all-reduces: takes commands, judges them, counts the outstanding ones.

    A command is judged 2 cycles after it was given.

    Parameters
    ----------
    config : AllReduceConfig
    descriptor : StructLayout
        An all-reduce as software describes it, with at least ``source``, ``destination``,
        ``elements`` and ``tag``.
    outcome : StructLayout
        Bits, each a reason why a result is not valid.
    errors : enumeration
        Why a command is refused: ``NONE``, ``ABORTING``, ``EMPTY``, ``ALIGNMENT``, ``ADDRESS``,
        ``FULL``, and those of `_faults`. Of several the first counts, ``ABORTING`` before all.
    **members
        Of this queue alone.

    Members
    -------
    command : ``In(descriptor)``, command_strobe : ``In(1)``
        A command is given; `command` is valid with the strobe.
    unreachable : ``In(1)``
        With a command: an address that software gave needs more than `address_bits`.
    memory_end : ``In(address_bits)``
        Last byte of memory; of a change, commands know from the next cycle on.
    accepted, refused : ``Out(1)``, error : ``Out(errors)``, judged_tag : ``Out(8)``
        High for one cycle per command.
    completed : ``Out(1)``, completed_tag : ``Out(8)``, failed : ``Out(outcome)``
        High for one cycle per all-reduce that is done; why its result is not valid.
    outstanding : ``Out(range(descriptors + 1))``
        All-reduces that were accepted and are not completed.
    flush : ``In(1)``
        Forget everything, refuse all commands.
    unaware : ``In(1)``
        Software has not taken note of an abort: refuse all commands.
    """

    command: Any
    command_strobe: Signal
    unreachable: Signal
    memory_end: Signal
    accepted: Signal
    refused: Signal
    error: Any
    judged_tag: Signal
    completed: Signal
    completed_tag: Signal
    failed: Any
    outstanding: Signal
    flush: Signal
    unaware: Signal

    def __init__(
        self,
        config: AllReduceConfig,
        *,
        descriptor: data.StructLayout,
        outcome: data.StructLayout,
        errors: Any,
        **members: Any,
    ) -> None:
        self._config: Any = config
        self._descriptor, self._errors = descriptor, errors
        super().__init__(
            {
                "command": In(descriptor),
                **dict.fromkeys(("command_strobe", "unreachable", "flush", "unaware"), In(1)),
                "memory_end": In(config.address_bits),
                **dict.fromkeys(("accepted", "refused", "completed"), Out(1)),
                "error": Out(errors),
                **dict.fromkeys(("judged_tag", "completed_tag"), Out(8)),
                "failed": Out(outcome),
                "outstanding": Out(range(config.descriptors + 1)),
                **members,
            }
        )

    @property
    def descriptors(self) -> int:
        """All-reduces that may be outstanding."""
        return int(self._config.descriptors)

    def _faults(self, given: Any, found: Mapping[str, Signal]) -> Mapping[str, Any]:
        """Errors of this engine's commands alone, by name: whether *given* has them, or those that
        were *found* a cycle earlier."""
        return {}

    def _early_faults(self, given: Any) -> Mapping[str, Any]:
        """Those of them that depend on *given* and on settings alone: looked for a cycle
        earlier."""
        return {}

    def _take(self, m: Module) -> tuple[Any, Any]:
        """The descriptor that is judged now, and the stream of those that were accepted."""
        given, judged, faulty = self._judge(m)
        queue = StreamFIFO(self._descriptor, self._config.descriptors, memory=False)
        m.submodules.queue = ResetInserter(self.flush)(queue)
        m.d.comb += [
            self.accepted.eq(judged & ~faulty),
            self.refused.eq(judged & faulty),
            self.judged_tag.eq(given.tag),
            queue.i.payload.eq(given),
            queue.i.valid.eq(self.accepted),
        ]
        m.d.sync += self.outstanding.eq(
            Mux(self.flush, 0, self.outstanding + self.accepted - self.completed)
        )
        return given, queue.o

    def _judge(self, m: Module) -> tuple[Any, Signal, Value]:
        """Check a command and drive `error`. Returns the command, whether there is one, and whether
        it has an error."""
        c = self._config
        given: Any = Signal(self._descriptor)
        given_valid, judged, outside = Signal(), Signal(), Signal()
        length_bytes = self.command.elements * ELEMENT_BYTES
        # Wide enough for any length, however narrow addresses are: nothing may wrap around.
        width = max(c.address_bits, len(length_bytes)) + 1
        read_end, written_end = Signal(width), Signal(width)
        self._memory_size = Signal(c.address_bits + 1, name="memory_size")
        m.d.sync += [
            given_valid.eq(self.command_strobe),
            judged.eq(given_valid),
            self._memory_size.eq(self.memory_end + 1),
        ]
        with m.If(self.command_strobe):
            m.d.sync += [
                given.eq(self.command),
                outside.eq(self.unreachable),
                read_end.eq(self.command.source + length_bytes),
                written_end.eq(self.command.destination + length_bytes),
            ]
        early = {
            "EMPTY": given.elements == 0,
            "ALIGNMENT": ((given.source | given.destination) & (c.bus_bytes - 1)).any(),
            "ADDRESS": outside
            | (read_end > self._memory_size)
            | (written_end > self._memory_size),
            **self._early_faults(given),
        }
        found = {name: Signal(name=name.lower()) for name in early}
        late = {
            "ABORTING": self.flush | self.unaware,
            "FULL": self.outstanding == c.descriptors,
            **self._faults(given, found),
        }
        # An engine may have its own rule in place of one of these.
        early = {name: fault for name, fault in early.items() if name not in late}
        any_found = Signal()
        m.d.sync += [
            # The longest comparison joins the others only in the next cycle.
            any_found.eq(Cat(each for name, each in early.items() if name != "ADDRESS").any()),
            *(found[name].eq(fault) for name, fault in early.items()),
        ]
        faults = {**found, **late}
        errors = [error for error in self._errors if error.name in faults]
        # Later assignments count.
        for error in sorted(errors, key=lambda each: (each.name == "ABORTING", -each.value)):
            with m.If(faults[error.name]):
                m.d.comb += self.error.eq(error)
        return given, judged, any_found | faults["ADDRESS"] | Cat(late.values()).any()


OUTCOMES = ("completed", "completed_tag", "failed", "refused", "judged_tag", "error")
"""Members of a queue that say what became of a command."""


class AllReduceOutcomes(wiring.Component):
    """Keeps outcomes of commands: a record for each that has completed or was refused, as many as
    may wait, and the last of each kind with its count.

    A refusal is recorded a cycle later, or after completions that come in the meantime.

    Parameters
    ----------
    registers : RegisterMap
        With those of `all_reduce_registers`.
    failed : StructLayout
        Why a result is not valid: ``read``, ``write``.
    errors : enumeration
        Why a command may be refused.
    depth : int
        Records that may wait.

    Members
    -------
    completed, completed_tag, failed, refused, judged_tag, error
        As the queue has them.
    completion, last_completed, last_refused, last_invalid
        The registers ``completion``, ``completed``, ``refusal`` and ``invalid``.
    spoilt : ``Out(1)``
        The result that was completed is not valid.
    pop : ``In(1)``
        The oldest record has been read.
    """

    completed: Signal
    completed_tag: Signal
    failed: Any
    refused: Signal
    judged_tag: Signal
    error: Any
    spoilt: Signal
    pop: Signal
    completion: Any
    last_completed: Any
    last_refused: Any
    last_invalid: Any

    def __init__(
        self, registers: RegisterMap, *, failed: data.StructLayout, errors: Any, depth: int
    ) -> None:
        self._depth = depth
        layouts = {name: each.layout for name, each in registers.registers.items()}
        super().__init__(
            {
                **dict.fromkeys(("completed", "refused"), In(1)),
                **dict.fromkeys(("completed_tag", "judged_tag"), In(8)),
                "failed": In(failed),
                "error": In(errors),
                "spoilt": Out(1),
                "pop": In(1),
                "completion": Out(layouts["completion"]),
                "last_completed": Out(layouts["completed"]),
                "last_refused": Out(layouts["refusal"]),
                "last_invalid": Out(layouts["invalid"]),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        self._keep_records(m)
        failed = self.failed.as_value().any()
        m.d.comb += self.spoilt.eq(self.completed & failed)
        record(m, self.last_refused, self.refused, error=self.error, tag=self.judged_tag)
        record(m, self.last_completed, self.completed, error=failed, tag=self.completed_tag)
        record(
            m, self.last_invalid, self.spoilt, read=self.failed.read, write=self.failed.write,
            tag=self.completed_tag,
        )
        return m

    def _keep_records(self, m: Module) -> None:
        layout = data.StructLayout({"read": 1, "write": 1, "error": self.error.shape(), "tag": 8})
        m.submodules.queue = queue = RecordQueue(layout, self._depth)
        refused: Any = Signal(layout)
        waits = Signal()  # a refusal for a completion of the same cycle, and longer
        with m.If(self.refused):
            m.d.sync += [refused.error.eq(self.error), refused.tag.eq(self.judged_tag)]
        m.d.sync += waits.eq(self.refused | waits & self.completed)
        m.d.comb += queue.i.valid.eq(self.completed | waits)
        with m.If(self.completed):
            m.d.comb += [
                queue.i.p.read.eq(self.failed.read),
                queue.i.p.write.eq(self.failed.write),
                queue.i.p.tag.eq(self.completed_tag),
            ]
        with m.Else():
            m.d.comb += queue.i.p.eq(refused)
        oldest, shown = queue.oldest, self.completion
        m.d.comb += [
            queue.pop.eq(self.pop),
            shown.valid.eq(queue.valid),
            shown.overrun.eq(queue.overrun),
            *(shown[field].eq(oldest[field]) for field in ("read", "write", "error", "tag")),
        ]


class AllReduceRegisters(EngineRegisters):
    """The registers of such an engine, as a part of its module."""

    def give_commands(self, queue: AllReduceQueue, *, address_bits: int) -> None:
        """Join the command registers to the queue, but for an engine's own fields."""
        source, destination = self.wide("source"), self.wide("destination")
        command = queue.command
        self._m.d.comb += [
            command.source.eq(source),
            command.destination.eq(destination),
            command.elements.eq(self.elements.value.value),
            command.op.eq(self.command.value.op),
            command.tag.eq(self.command.value.tag),
            queue.command_strobe.eq(self.command.strobe),
            queue.unreachable.eq((source | destination)[address_bits:].any()),
            queue.memory_end.eq(self.wide("memory_end")),
            queue.unaware.eq(self.interrupt.value.aborted),
        ]

    def record_outcomes(self, queue: AllReduceQueue, **causes: Any) -> Value:
        """Record completions and refusals; return whether they or *causes* raise an interrupt."""
        self._m.submodules.outcomes = outcomes = AllReduceOutcomes(
            self.registers, failed=queue.failed.shape(), errors=queue.error.shape(),
            depth=2 * queue.descriptors,
        )
        self._m.d.comb += [
            *(getattr(outcomes, name).eq(getattr(queue, name)) for name in OUTCOMES),
            outcomes.pop.eq(self.completion_taken.strobe),
            self.completion.value.eq(outcomes.completion),
            self.completed.value.eq(outcomes.last_completed),
            self.refusal.value.eq(outcomes.last_refused),
            self.invalid.value.eq(outcomes.last_invalid),
        ]
        return self.interrupt_by(
            done=queue.completed, refused=queue.refused, invalid=outcomes.spoilt, **causes
        )

    def watch(
        self, watchdog: Watchdog, queue: AllReduceQueue, *, flush: Any, moved: Sequence[Any]
    ) -> None:
        """Let the watchdog guard outstanding commands; *moved*: bits that show progress."""
        self._m.d.comb += [
            watchdog.limit.eq(self.watchdog.value.cycles),
            watchdog.outstanding.eq((queue.outstanding != 0) & ~flush),
            watchdog.progress.eq(Cat(*moved).any() | queue.completed | queue.accepted),
        ]
