# SPDX-License-Identifier: Apache-2.0
"""Links of the switch with retry: a reliable link out of wires that are not."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.fifo import StreamFIFO
from hw.common.params import require_int, require_type
from hw.link.packet import FLIT_BITS, checksum_of
from hw.link.retry_frame import CRC_BITS, KIND_BITS, RetryConfig, RetryFormat
from hw.link.retry_link import RETRY_STATUS, RetryLink
from hw.link.with_retry import WithRetry
from hw.switch.config import PlaneConfig, SwitchConfig
from hw.switch.formats import length_code, rest_of
from hw.switch.layouts import LINK_FLIT, LinkSignature
from hw.switch.packet import CLASSES, HEADER, Format, has_data
from hw.switch.switch import Switch

__all__ = ["PacketRetry", "RetrySwitch", "RetrySwitchConfig", "join_links", "packet_frames"]

_CONTENT = slice(HEADER["kind"].offset, HEADER["sequence"].offset)
"""Bits of a header that are the packet's: all between the mode bit, which is 1, and those kept for
the link."""


@dataclass(frozen=True, kw_only=True)
class _PacketFrames(RetryFormat):
    """Frames of packets: compressed data makes them shorter. ``lengths``: formats, and how many
    flits packets in them have."""

    lengths: tuple[tuple[Format, int], ...] = ()

    def length_of(self, content: Value) -> Value:
        """Body flits of a frame with this content, in hardware."""
        first = HEADER["format"].offset - _CONTENT.start
        format = Value.cast(content)[first : first + HEADER["format"].width]
        flits: Value = Const(self.flits)
        for each, length in self.lengths:
            flits = Mux(format == each.value, length - 1, flits)
        return Mux(has_data(Value.cast(content)[:KIND_BITS]), flits, 0)


def packet_frames(
    payload_flits: int, lengths: Mapping[Format, int] | None = None
) -> RetryFormat:
    """Frames in which a packet travels: the header and nothing more is replaced. *lengths*: as of
    `hw.switch.config.PlaneConfig`.

    A number, an acknowledgement, a credit of each class and the CRC take the place of
    ``sequence``, ``acknowledge``, ``crc``, ``checksum`` and ``offload``.
    """
    format = _PacketFrames(
        lengths=tuple((lengths or {}).items()), width=FLIT_BITS, flits=payload_flits,
        content=_CONTENT.stop - _CONTENT.start,
        classes=CLASSES,
    )
    assert format.header.size == FLIT_BITS and format.header["crc"].width == CRC_BITS
    return format


class PacketRetry(wiring.Component):
    """Stands between a link of the switch, or of its endpoint, and the wire.

    A packet is as long on the wire as without retry. Its engine never waits: what it may send with
    the credits that it has fits the queue here. A header whose checksum is wrong is dropped, with
    what follows it. A packet of n flits arrives 2 n + 6 cycles later than without retry.

    Parameters
    ----------
    payload_flits : int
        Flits of data in a packet.
    credits : int
        Of each class that the engine has: packets that the buffer behind the other end holds.
    config : RetryConfig
    lengths : mapping of Format to int
        Flits of packets with compressed data.

    Members
    -------
    engine : ``In(LinkSignature())``
        The link, seen from the engine.
    tx : ``Out(stream.Signature(LINK_FLIT))``
        To the wire.
    rx : ``In(stream.Signature(LINK_FLIT, always_ready=True))``
        From the wire.
    overrun : ``Out(1)``
        The engine has sent without a credit, and a flit was lost.
    up, failed, restarted, resent, damaged, repeated, idle : ``Out(1)``
        As of `RetryLink`.
    """

    engine: Any
    tx: Any
    rx: Any
    overrun: Signal
    up: Signal
    failed: Signal
    restarted: Signal
    resent: Signal
    damaged: Signal
    repeated: Signal
    idle: Signal

    def __init__(
        self, *, payload_flits: int, credits: int, config: RetryConfig,
        lengths: Mapping[Format, int] | None = None,
    ) -> None:
        self._lengths = dict(lengths or {})
        self._flits = require_int("PacketRetry payload_flits", payload_flits, maximum=16)
        self._credits = require_int("PacketRetry credits", credits)
        self._config = require_type("PacketRetry config", config, RetryConfig)
        events = ("overrun", *RETRY_STATUS, "idle")
        super().__init__(
            {
                "engine": In(LinkSignature()),
                "tx": Out(stream.Signature(LINK_FLIT)),
                "rx": In(stream.Signature(LINK_FLIT, always_ready=True)),
                **dict.fromkeys(events, Out(1)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        frames = packet_frames(self._flits, self._lengths)
        m.submodules.link = link = RetryLink(frames, self._config)
        waiting = self._send(m, link)
        self._receive(m, link)
        connect(m, link.tx, flipped(self.tx))
        connect(m, flipped(self.rx), link.rx)
        m.d.comb += [
            *(getattr(self, name).eq(getattr(link, name))
              for name in RETRY_STATUS),
            self.idle.eq(link.idle & ~waiting & ~self.engine.rx.valid
                         & ~self.engine.tx_credit.any()),
        ]
        return m

    def _send(self, m: Module, link: RetryLink) -> Value:
        """Put packets of the engine into frames; return whether any are held."""
        engine, frame = self.engine, link.frame
        depth = CLASSES * self._credits * (self._flits + 1)
        m.submodules.queue = queue = StreamFIFO(LINK_FLIT, depth)
        flit = queue.o
        header = Signal(HEADER)
        content = Signal(frame.content.shape())
        kept = Signal.like(content)
        left = Signal(range(self._flits + 1))
        sound = Signal()
        begins = Signal()
        body = Signal()
        taken = flit.valid & flit.ready
        short = list(dict.fromkeys(self._lengths.values()))
        follow = rest_of(length_code(header, self._lengths), self._flits + 1, short)
        m.d.comb += [
            queue.i.valid.eq(engine.tx.valid),
            queue.i.p.eq(engine.tx.p),
            self.overrun.eq(engine.tx.valid & ~queue.i.ready),
            header.eq(flit.p.data),
            content.eq(header.as_value()[_CONTENT]),
            sound.eq((header.checksum == checksum_of(flit.p.data))
                     & Value.cast(header.kind).any()),
            flit.ready.eq(frame.room),
            begins.eq(taken & flit.p.start & sound),
            body.eq(taken & ~flit.p.start & (left != 0)),
            frame.soon.eq(flit.valid | (left != 0)),
            frame.fresh.eq(begins),
            frame.write.eq(body),
            frame.data.eq(flit.p.data),
            frame.commit.eq((begins & ~has_data(header.kind)) | (body & (left == 1))),
            frame.content.eq(Mux(begins, content, kept)),
            Cat(link.freed).eq(engine.rx_credit),
        ]
        with m.If(taken & flit.p.start):
            m.d.sync += [kept.eq(content), left.eq(Mux(sound, follow, 0))]
        with m.Elif(body):
            m.d.sync += left.eq(left - 1)
        return (queue.level != 0) | (left != 0)

    def _receive(self, m: Module, link: RetryLink) -> None:
        """Turn frames into packets for the engine."""
        engine, came = self.engine, link.o
        header = Signal(HEADER)
        checked = Signal(HEADER)
        bits = header.as_value()
        m.d.comb += [
            bits.eq(Cat(Const(1, _CONTENT.start), came.p.content)),
            checked.eq(header),
            checked.checksum.eq(checksum_of(bits)),
            came.ready.eq(1),
        ]
        m.d.sync += [
            engine.rx.valid.eq(came.valid),
            engine.rx.p.start.eq(came.p.first),
            engine.rx.p.data.eq(Mux(came.p.first, checked.as_value(), came.p.data)),
            engine.tx_credit.eq(Value.cast(link.credits)),
        ]


@dataclass(frozen=True, kw_only=True)
class RetrySwitchConfig:
    """A switch and its links. It has the registers of these, whatever *switch* says."""

    switch: SwitchConfig
    retry: RetryConfig

    def __post_init__(self) -> None:
        object.__setattr__(self, "switch", replace(self.switch, retry=True))


def join_links(
    m: Module, inner: Any, outer: Any, *, plane: PlaneConfig, config: RetryConfig
) -> list[PacketRetry]:
    """Retry between the links of the engine *inner* and wires in the place of these, *outer*.

    *plane*: what the engine is built for. The wires are seen as links without credits, which
    travel in the frames.
    """
    made = []
    for k, (link, wire) in enumerate(zip(inner.link, outer, strict=True)):
        m.submodules[f"retry_{k}"] = retry = PacketRetry(
            payload_flits=plane.payload_flits, credits=plane.credits, config=config,
            lengths=plane.lengths,
        )
        connect(m, link, retry.engine)
        m.d.comb += [
            *(inner.status[k][name].eq(getattr(retry, name)) for name in RETRY_STATUS),
            wire.tx.valid.eq(retry.tx.valid),
            wire.tx.p.eq(retry.tx.p),
            retry.tx.ready.eq(1),
            retry.rx.valid.eq(wire.rx.valid),
            retry.rx.p.eq(wire.rx.p),
            wire.rx_credit.eq(0),
        ]
        made.append(retry)
    return made


class RetrySwitch(WithRetry):
    """A switch whose links have retry.

    Parameters
    ----------
    config : RetrySwitchConfig

    Members
    -------
    link : ``Out(LinkSignature()).array(ports)``
        Wires; their credits are not used.
    csr, irq, taken
        As of `hw.switch.switch.Switch`.
    failed, up : ``Out(ports)``
        Links that have failed; that work.
    resent, damaged, repeated : ``Out(32)``
        Frames of all links that were sent again; that came damaged; that came again. With
        ``trace``.
    idle : ``Out(1)``
        Nothing is held, and all that was sent was acknowledged.
    """

    taken: Any

    def __init__(self, config: RetrySwitchConfig) -> None:
        self._retry = require_type("RetrySwitch config", config, RetrySwitchConfig)
        c = config.switch
        super().__init__("switch", Switch(c), c, trace=c.trace)

    def join(self, m: Module, engine: Any) -> list[PacketRetry]:
        return join_links(m, engine, self.link, plane=self.config, config=self._retry.retry)
