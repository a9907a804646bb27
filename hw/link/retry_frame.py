# SPDX-License-Identifier: Apache-2.0
"""Frames of a link with retry: their header, their checksum, and what engines say in them.

A *frame* is a header and up to ``flits`` body flits of ``width`` bits. The header lies in the
lowest bits of a flit of its own. It holds the number of the frame, the number of the frame that is
awaited from the other side, credits, and a CRC of 32 bits over the body and the header, beside
``content`` bits that are the engine's. The lowest four bits of the content say what kind of frame
it is; 0 is kept for the link itself (`Control`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from amaranth.hdl import Cat, Const, Mux, Value
from amaranth.lib import data, enum

from hw.common.params import require, require_int

__all__ = [
    "CRC_BITS",
    "CRC_START",
    "KIND_BITS",
    "Control",
    "RetryConfig",
    "RetryFormat",
    "crc_end",
    "crc_step",
]

CRC_BITS = 32
CRC_START = (1 << CRC_BITS) - 1
"""State of the CRC before the first bit."""

# CRC-32 of IEEE 802.3, low bit first, as zlib computes it. Of up to 2974 bits it finds every four
# that are flipped, of up to 91607 every three, and every burst of up to 32.
_POLYNOMIAL = 0xEDB88320

KIND_BITS = 4


class Control(enum.Enum, shape=3):
    """Purpose of a frame without content. Only CARRIER frames are numbered and repeated."""

    ACK = 0  # the number of the frame that is awaited, and no more
    NAK = 1  # frames from ``first`` to ``last`` have not come
    SYNC = 2  # who I am, and who you are to me; my next frame will be number ``first``
    PROBE = 3  # do you hear me? ``first`` is the mark of the question
    ANSWER = 4  # I do: ``first`` is the mark of the PROBE
    CARRIER = 5  # credits


@dataclass(frozen=True, kw_only=True)
class RetryConfig:
    """Parameters of a link with retry, whatever travels on it.

    Parameters
    ----------
    slots : int
        Frames that a side keeps until they are acknowledged, and as many that it takes out of
        order; a power of two from 2 to 64. They must cover a round trip of the link, or two, so
        that it does not wait for what is repeated.
    timeout_cycles : int
        Cycles without progress after which the oldest frame is repeated, 16 to 65535; more than a
        round trip and two frames. A link that was reset is silent for as long.
    tries : int
        Repetitions without progress after which the link has failed, 1 to 255. It goes on trying,
        and works again when the peer answers.
    keepalive_cycles : int
        Cycles of silence after which the peer is probed, 16 to 2^24 - 1; 0 for never.

    Raises
    ------
    ValueError, TypeError
        Naming the parameter, its value and what is allowed.
    """

    slots: int = 64
    timeout_cycles: int = 512
    tries: int = 16
    keepalive_cycles: int = 65535

    def __post_init__(self) -> None:
        require_int("slots", self.slots, minimum=2, maximum=64, power_of_two=True)
        require_int("timeout_cycles", self.timeout_cycles, minimum=16, maximum=65535)
        require_int("tries", self.tries, minimum=1, maximum=255)
        if require_int("keepalive_cycles", self.keepalive_cycles, minimum=0):
            require_int(
                "keepalive_cycles", self.keepalive_cycles, minimum=16, maximum=(1 << 24) - 1
            )


@dataclass(frozen=True, kw_only=True)
class RetryFormat:
    """Widths of a frame in bits.

    Parameters
    ----------
    width : int
        Of a flit.
    flits : int
        Body flits of a frame, at most.
    content : int
        Of what is the engine's in a header.
    sequence : int
        Of the number of a frame. At most half of the numbers may be under way.
    classes, credit : int
        Classes of credits, and bits for the credits of each that a frame carries.
    session : int
        Of the number of an end, 3 to 16. An end takes a new one with each reset; half of them must
        not be taken within the life of a copy of a frame.
    """

    width: int = 128
    flits: int = 8
    content: int = 79
    sequence: int = 7
    classes: int = 3
    credit: int = 1
    session: int = 16

    def __post_init__(self) -> None:
        for name in ("width", "flits", "sequence", "classes", "credit"):
            require_int(f"RetryFormat {name}", getattr(self, name))
        require_int("RetryFormat session", self.session, minimum=3, maximum=CRC_BITS // 2)
        require_int("RetryFormat content", self.content, minimum=self.control_layout.size)
        require(
            self.header.size <= self.width,
            "RetryFormat width", f"at least the {self.header.size} bits of a header", self.width,
        )

    @property
    def credits(self) -> data.ArrayLayout:
        """Credits in a frame, by class."""
        return data.ArrayLayout(self.credit, self.classes)

    @property
    def header(self) -> data.StructLayout:
        """The header of a frame."""
        return data.StructLayout(
            {
                "content": self.content,
                "credits": self.credits,
                "sequence": self.sequence,
                "acknowledge": self.sequence,
                "crc": CRC_BITS,
            }
        )

    @property
    def control_layout(self) -> data.StructLayout:
        """The content of a frame of the link itself."""
        return data.StructLayout(
            {
                "kind": KIND_BITS,  # 0
                "control": Control,
                "heard": 1,  # SYNC: there is a session; else: the other end was heard
                "first": self.sequence,
                "last": self.sequence,
                "session": self.session,  # number of this end
                "echo": self.session,  # of the other one; 0 is none
            }
        )

    def length_of(self, content: Value) -> Value:
        """Body flits of a frame with this content, in hardware: all of them if bit 2 is set."""
        return Value.cast(content)[2] * Const(self.flits)

    # The CRC may be taken for one bit in proofs, so it is the format's.

    def crc_of_flit(self, state: Value, flit: Value) -> Value:
        """State of the CRC after a body flit, in hardware."""
        return crc_step(state, flit)

    def crc_of_header(self, state: Value, header: Value) -> Value:
        """The checksum of a frame, from the state after its body and its header."""
        return crc_end(crc_step(state, Value.cast(header)[: self.header.size - CRC_BITS]))

    def sealed(self, crc: Value, numbered: Value, sender: Value, receiver: Value) -> Value:
        """The checksum as it is sent: that of a numbered frame is right in its session alone.
        *sender*, *receiver*: numbers of the ends."""
        return crc ^ Mux(numbered, Cat(sender, receiver), 0)


def _shift(state: int, bits: Iterable[int]) -> int:
    for bit in bits:
        state = state >> 1 ^ (_POLYNOMIAL if (state ^ bit) & 1 else 0)
    return state


@cache
def _masks(width: int) -> Sequence[tuple[int, int]]:
    """For each bit of the next state the bits of the state, and of *width* input bits, in it."""
    of_state = [_shift(1 << bit, [0] * width) for bit in range(CRC_BITS)]
    of_input = [_shift(0, [int(k == bit) for k in range(width)]) for bit in range(width)]
    return [
        (
            sum((effect >> out & 1) << bit for bit, effect in enumerate(of_state)),
            sum((effect >> out & 1) << bit for bit, effect in enumerate(of_input)),
        )
        for out in range(CRC_BITS)
    ]


def crc_step(state: Value, bits: Value) -> Value:
    """State of the CRC after *bits*, the lowest first."""
    state, bits = Value.cast(state), Value.cast(bits)
    return Cat(
        (state & of_state).xor() ^ (bits & of_input).xor()
        for of_state, of_input in _masks(len(bits))
    )


def crc_end(state: Value) -> Value:
    """The checksum that a state stands for."""
    return ~Value.cast(state)
