# SPDX-License-Identifier: Apache-2.0
"""Register writes, packets and vectors for the bench of the switch's endpoint, and its manual.

The endpoint is one of three members; a table models the switch and the other members: it has the
packets that the endpoint must send, and the replies.
"""

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from amaranth.hdl import C, Const
from numpy.typing import NDArray

from foldwire.catalog import Design
from foldwire.handoff.packets import link_about, packet, packet_section
from foldwire.handoff.part import Handoff, HandoffBench
from foldwire.handoff.sections import placed, writes_table
from foldwire.handoff.switch import MANUAL_MEMBERS
from foldwire.handoff.words import PATIENCE, words
from hw.common.axi import ATTRIBUTES
from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from hw.switch.packet import HEADER, AbortCause, Kind, notice_fields
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.layouts import address_of, contract_flits
from hw.switch_dma.registers import INTERRUPTS
from sim.rtl.writes import Write, halves

__all__ = ["HANDOFF", "example_writes", "switch_dma_data"]

_MEMBERS, _OWN, _REGION = 3, 1, 2
_MEMORY_BYTES = 1 << 16
_OPS = (ReduceOp.SUM_I32, ReduceOp.SUM_F32, ReduceOp.MAX_F32)
_SEED = 1
_FAR = (1 << 10) - 1
"""Number of a block that no vector of the bench has."""

_NOTHING = np.zeros(0, np.uint32)

_Stage = dict[str, Any]


def _set_up(
    registers: RegisterMap, members: int = _MEMBERS, region: int = _REGION
) -> Iterator[Write]:
    pack = {name: register.pack for name, register in registers.registers.items()}
    yield "node", pack["node"](endpoint=_OWN, members=members, region=region)
    yield from halves("memory_end", _MEMORY_BYTES - 1)
    yield "watchdog", pack["watchdog"](cycles=PATIENCE, tries=0, abort=1)
    causes = (field.name for field in registers.registers["interrupt_enable"].fields)
    yield "interrupt_enable", pack["interrupt_enable"](**dict.fromkeys(causes, 1))
    yield "control", pack["control"](join=1)


def _start(
    registers: RegisterMap, op: ReduceOp, elements: int, *, tag: int, source: int, destination: int
) -> Iterator[Write]:
    yield from halves("source", source)
    yield from halves("destination", destination)
    yield "elements", elements
    yield "command", registers.registers["command"].pack(tag=tag, op=op)


def example_writes(registers: RegisterMap, members: int) -> tuple[list[Write], list[Write]]:
    """Writes that make endpoint 1 one of *members* members of region 0, and writes that start an
    all-reduce on it."""
    start = _start(registers, _OPS[0], 150, tag=0, source=1 << 12, destination=1 << 13)
    return list(_set_up(registers, members, 0)), list(start)


class _Course:
    """Stages of the bench, in order: writes, packets to and from the endpoint, expected results."""

    def __init__(self, config: SwitchDmaConfig, registers: RegisterMap) -> None:
        self._config, self._registers = config, registers
        self._rng = np.random.default_rng(_SEED)
        self._size = config.block_elements
        self._epoch = 0
        self._next = [0] * config.links  # number of the next block on each link
        self._place = 0
        self._tag = 0

    # ---- Packets.

    def _packet(self, kind: Kind, number: int, values: NDArray[Any], **fields: Any) -> list[int]:
        address = address_of(self._config, C(self._epoch, 32), C(number, self._config.number_bits))
        header = {"kind": kind, "region": _REGION, "epoch": self._epoch % 8,
                  "address": Const.cast(address).value}
        return packet(header | fields, values)

    def _notice(
        self, source: int, *, cause: AbortCause, origin: int, fresh: int, settled: int
    ) -> list[int]:
        told = {"epoch": self._epoch, "cause": cause, "origin": origin, "fresh": fresh,
                "settled": settled}
        header = {"kind": Kind.SYNC, "region": _REGION, "source": source, **notice_fields(told)}
        return packet(header, _NOTHING)

    def _exchange(self, number: int, op: ReduceOp, operands: NDArray[Any]) -> list[Any]:
        """Packets that the endpoint sends for a block, each with the network's replies.

        The blocks take turns: another member adds, this one adds two partials, or three. It does
        not send the sum of partials that are multicast.
        """
        home = number % _MEMBERS
        result = {"op": op.value, "source": home, "destination": home, "count": _MEMBERS}
        push = self._packet(Kind.PUSH, number, operands[_OWN], op=op.value, source=_OWN, count=1)
        total = self._packet(Kind.RESULT, number, _folded(op, operands), **result)
        if home != _OWN:
            return [[push, [total]]]
        cuts = [1, 2] if number % 2 else [1 + number % 4 // 2]
        partials = [
            self._packet(self._partial, number, _folded(op, part), op=op.value, source=_OWN,
                         destination=_OWN, count=len(part))
            for part in np.split(operands, cuts)
        ]
        sent = [] if self._config.multicast_partials else [[total, []]]
        return [[push, partials], *sent]

    @property
    def _partial(self) -> Kind:
        return Kind.SUBTOTAL if self._config.multicast_partials else Kind.PARTIAL

    def _contract(self, op: ReduceOp, elements: int) -> NDArray[Any]:
        job = SimpleNamespace(
            elements=C(elements, 32), tag=C(self._tag, 8), op=op, pull=C(0, 1)
        )
        window = SimpleNamespace(size_log2=C(0, 4), outstanding=C(0, 6))
        members = C(_MEMBERS, HEADER["count"].width)
        flits = [Const.cast(each).value for each in contract_flits(job, members, window)]
        raw = b"".join(each.to_bytes(16, "little") for each in flits)
        return np.frombuffer(raw.ljust(self._config.payload_bytes, b"\0"), np.float32)

    # ---- Stages.

    def _stage(self, **parts: Any) -> _Stage:
        nothing: list[list[Any]] = [[] for _ in range(self._config.links)]
        return {
            "put": [], "send": nothing, "answers": nothing, "writes": [], "interrupt": 0,
            "idle": 1, "expect": [], "registers": [], **parts,
        }

    def _on_all(self, parts: list[Any]) -> list[list[Any]]:
        return [list(parts) for _ in range(self._config.links)]

    def _greeting(self, *, cause: AbortCause = AbortCause.NONE) -> list[Any]:
        """Packets on every link when all members enter an epoch: this endpoint's notice and those
        of the other members, and again when each has heard from all."""
        about: Any = {"cause": cause, "origin": _OWN if cause is not AbortCause.NONE else 0}
        return [
            [self._notice(_OWN, **about, fresh=0, settled=settled),
             [self._notice(k, **about, fresh=0, settled=settled)
              for k in range(_MEMBERS) if k != _OWN]]
            for settled in (0, 1)
        ]

    def _asking(self) -> list[Any]:
        """The endpoint's notice to its switch when it joins, and the answer, sent in its name."""
        fresh = self._notice(_OWN, cause=AbortCause.NONE, origin=0, fresh=1, settled=0)
        answer = self._notice(_OWN, cause=AbortCause.RESET, origin=_OWN, fresh=0, settled=0)
        return [[fresh, [answer]]]

    @staticmethod
    def _counting() -> list[Any]:
        """Packets that recount the credits, in both directions."""
        first, answer, other = (
            packet({"kind": kind, "tag": 1, "poison": both}, _NOTHING)
            for kind, both in ((Kind.COUNT, 1), (Kind.COUNTED, 0), (Kind.COUNT, 0))
        )
        return [[first, [answer, other]], [answer, []]]

    def _causes(self, *names: str) -> int:
        return self._registers.registers["interrupt"].pack(**dict.fromkeys(names, 1))

    def _ready(self, **found: int) -> list[tuple[int, int]]:
        status = self._registers.registers["status"].pack(idle=1, joined=1, ready=1)
        return words(self._registers, [("status", status), *found.items()])

    def join(self) -> _Stage:
        return self._stage(
            writes=words(self._registers, _set_up(self._registers)),
            answers=self._on_all([*self._counting(), *self._asking(), *self._greeting()]),
            registers=self._ready(epoch=0),
        )

    def all_reduce(self, op: ReduceOp, elements: int, *, lost: bool = False) -> _Stage:
        """An all-reduce; if *lost*, the network loses all packets that are sent."""
        c, size = self._config, self._size
        blocks = -(-elements // size)
        # Integers so small that binary32 adds them without rounding, in any order.
        kind = np.int32 if op is ReduceOp.SUM_I32 else np.float32
        values = self._rng.integers(-1000, 1000, (_MEMBERS, blocks * size)).astype(kind)
        values[:, elements:] = 0
        answers: list[list[Any]] = []
        for link in range(c.links):
            contract = np.stack([self._contract(op, elements)] * _MEMBERS)
            shared = [values[:, block * size : (block + 1) * size]
                      for block in range(link, blocks, c.links)]
            exchanges = self._exchange(self._next[link], ReduceOp.MAX_F32, contract)
            for number, operands in enumerate(shared, self._next[link] + 1):
                exchanges += self._exchange(number, op, operands)
            self._next[link] += 1 + len(shared)
            if lost:
                exchanges = [[sent, []] for sent, replies in exchanges if replies]
            answers.append(exchanges)
        source, destination = self._free(elements), self._free(elements)
        start = _start(self._registers, op, elements, tag=self._tag, source=source,
                       destination=destination)
        self._tag += 1
        stage = self._stage(
            put=[[source, values[_OWN, :elements].tobytes().hex()]],
            writes=words(self._registers, start), answers=answers,
        )
        if lost:
            return stage | {"idle": 0}
        result = _folded(op, values)[:elements].tobytes().hex()
        return stage | {"expect": [[destination, result]], "interrupt": self._causes("done")}

    def _free(self, elements: int) -> int:
        """Address of free memory for a vector, a flit after the last one."""
        place = self._place + 16
        self._place = place + -(-4 * elements // 16) * 16
        assert self._place <= _MEMORY_BYTES
        return place

    def abort(self) -> _Stage:
        registers = self._registers.registers
        self._epoch += 1
        self._next = [0] * self._config.links
        cause = registers["abort"].pack(cause=AbortCause.SOFTWARE, endpoint=_OWN)
        give_up = registers["control"].pack(abort=1)
        return self._stage(
            writes=words(self._registers, [("control", give_up)]),
            answers=self._on_all(self._greeting(cause=AbortCause.SOFTWARE)),
            interrupt=self._causes("aborted"),
            registers=self._ready(epoch=self._epoch, abort=cause),
        )

    def wrong_packets(self) -> _Stage:
        """Packets on every link that must be dropped and counted."""
        zeros = np.zeros(self._size, np.int32)
        sound = {"op": ReduceOp.SUM_I32.value, "count": _MEMBERS}
        wrong = {
            "unknown": self._packet(Kind.RESULT, _FAR, zeros, **sound),
            "region": self._packet(Kind.RESULT, _FAR, zeros, **{**sound, "region": 0}),
            "stale": self._packet(Kind.RESULT, _FAR, zeros, **{**sound, "epoch": 7}),
            "misled": self._packet(
                Kind.RESPONSE if self._config.multicast_partials else Kind.PARTIAL, _FAR, zeros,
                **sound,
            ),
            "damaged": packet({"kind": Kind.INVALID, "region": _REGION}, _NOTHING),
            "excess": self._packet(
                self._partial, _FAR, zeros,
                **{**sound, "count": _MEMBERS + 1, "destination": _OWN},
            ),
        }
        links = range(self._config.links)
        counts = [(self._registers.offset(f"dropped_{why}", link), 1)
                  for why in wrong for link in links]
        return self._stage(
            send=[list(wrong.values()) for _ in links],
            interrupt=self._causes("dropped"), registers=counts,
        )


def _folded(op: ReduceOp, operands: NDArray[Any]) -> NDArray[Any]:
    fold = {ReduceOp.MAX_F32: operands.max, ReduceOp.MIN_F32: operands.min}
    return np.asarray(fold.get(op, operands.sum)(axis=0)).astype(operands.dtype)


def switch_dma_data(design: Design) -> dict[str, Any]:
    """Data for `bench/cocotb_switch_dma.py`."""
    registers = design.registers
    assert registers is not None
    values: dict[str, Any] = design.parameters
    config = SwitchDmaConfig(**values)
    block, links = config.block_elements, config.links
    # More blocks than the small preset has in flight; a part of one; not one for every link.
    lengths = (9 * links * block + 5, 2 * links * block, 1)
    sums, drops, aborts = (_Course(config, registers) for _ in range(3))
    return {
        "links": links,
        "link": link_about(config),
        "bus_bytes": config.bus_bytes,
        "memory_bytes": _MEMORY_BYTES,
        "memory_ports": [f"mem_{link}" for link in range(links)],
        "attributes": {name: value for name, (_, value) in ATTRIBUTES.items()},
        "interrupt": registers.offset("interrupt"),
        "sums": [
            sums.join(),
            *(sums.all_reduce(op, each) for op, each in zip(_OPS, lengths, strict=True)),
        ],
        "drops": [drops.join(), drops.wrong_packets(), drops.all_reduce(_OPS[0], 2 * block)],
        "aborts": [
            aborts.join(), aborts.all_reduce(_OPS[0], block, lost=True), aborts.abort(),
            aborts.all_reduce(_OPS[1], links * block - 1),
        ],
    }


# ---- The manual.


_RECIPES = """\
## Recipe: wait for the end of an all-reduce

Wait for `irq`, or read `interrupt` until a bit is set; write the bits back to clear them.
Then read `completion` until `completion.valid` is 0: each read with `completion.valid` set is the
record of one command (`completion.tag`); write `completion_taken` to go on to the next. The result
is valid if `completion.read`, `completion.write` and `completion.error` are 0. Commands without a
record were given up if `interrupt.aborted` is set. `completed.count` is the number of all-reduces
that are over.

## Recipe: abort and recover

An endpoint aborts by itself when members disagree, and with `watchdog.abort` after
`watchdog.cycles` without progress, `watchdog.tries` times more; software writes `control` with
`control.abort` set, on any one endpoint. All members give up what is queued. Then, on every one,

1. read `abort`: `abort.cause`, and `abort.endpoint` at which it began;
2. clear `interrupt.aborted`: until then commands are refused;
3. read `status` until `status.ready` is set: all members are in `epoch`;
4. start anew. What the destinations hold of what was given up is undefined.

An endpoint that was reset alone is set up again; when it joins, the others abort once. The
time-out of the switches must not be 0, so that operands of what was given up leave their tables.

## Recipe: something was dropped

`interrupt.dropped` is set; for each link there are counters that say why. What was dropped leaves
its all-reduce incomplete: it ends by the watchdog, which set-up has set.
"""


def _manual_set_up(design: Design) -> list[str]:
    registers = design.registers
    assert registers is not None
    set_up, start = example_writes(registers, MANUAL_MEMBERS)
    pull = registers.registers["command"].pack(op=ReduceOp.SUM_I32, pull=1)
    return [
        "## Recipe: set up\n\nAfter reset, on every endpoint, once all switches are programmed. "
        f"The words are those of endpoint 1, one of {MANUAL_MEMBERS} members of region 0, as the "
        "switch's manual has them; other endpoints have their number in `node.endpoint`. "
        "`watchdog` must be longer than twice the time-out of the switches, and than a member may "
        "come late: then its all-reduce is given up on all members, and `interrupt.stalled` and "
        "`interrupt.aborted` are set. Then read `status` until `status.ready` is set: all members "
        "have joined.\n\n" + writes_table(placed(set_up, registers)),
        "## Recipe: start\n\nOn all members, in the same order. The words are those of an "
        "all-reduce of 150 integers by push; by pull, `command` is "
        f"`{pull:#x}`. A command that cannot be done is refused: "
        "`interrupt.refused`, and `refusal` says why.\n\n" + writes_table(placed(start, registers)),
    ]


def _bench(design: Design, manifest: Mapping[str, Any]) -> HandoffBench:
    return HandoffBench(module="cocotb_switch_dma", data=switch_dma_data(design))


HANDOFF = Handoff(
    bench=_bench, recipes=_RECIPES, interrupts=INTERRUPTS, set_up=_manual_set_up,
    packets=packet_section, driver="switch_dma.c", through="switch",
)
