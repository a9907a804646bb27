# SPDX-License-Identifier: Apache-2.0
"""Interfaces between the parts of the endpoint."""

from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from hw.common.signature import ParametricSignature
from hw.switch.packet import HEADER
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.layouts import NODE, job_layout, outcome_layout, window_layout

__all__ = [
    "AnswerSignature",
    "BeginSignature",
    "BlockSignature",
    "CreditsSignature",
    "MemberSignature",
    "PartSignature",
    "RegionSignature",
    "SettingsSignature",
    "StateSignature",
    "WaitedSignature",
    "WindowSignature",
    "WorkSignature",
]


class MemberSignature(ParametricSignature):
    """Who this endpoint is in a region, seen from who says so.

    Members
    -------
    node : ``Out(NODE)``
        Its number, and the members and number of the region; always valid. A change of it flushes
        the region.
    epoch : ``Out(...)``
        The low bits of the present epoch, as headers have them; always valid.
    """

    def __init__(self) -> None:
        super().__init__({"node": Out(NODE), "epoch": Out(HEADER["epoch"].width)})


class RegionSignature(ParametricSignature):
    """Packets of a region on one link, seen from its `Membership`.

    Members
    -------
    open : ``Out(1)``
        Take those that come; always valid.
    flush : ``Out(1)``
        Forget all of the region. Holds until `busy` is low; that needs neither link nor memory.
    busy : ``In(1)``
        Something of the region may still leave, or be taken; valid during `flush`.
    unanswered : ``In(1)``
        Memory has still to answer something that was forgotten: no job begins. Always valid.
    disagreed, overflow : ``In(1)``
        High for one cycle: reasons to abort.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                **dict.fromkeys(("open", "flush"), Out(1)),
                **dict.fromkeys(("busy", "unanswered", "disagreed", "overflow"), In(1)),
            }
        )


class StateSignature(ParametricSignature):
    """State of a region that commands depend on, seen from its `Membership`; always valid.

    Members
    -------
    joined : ``Out(1)``
        Software has had the endpoint join: commands are taken.
    ready : ``Out(1)``
        All others have heard from all: all-reduces may begin.
    flush : ``Out(1)``
        Forget all of the region, refuse its commands.
    aborted : ``Out(1)``
        High for one cycle when an epoch ends in which this endpoint had commands, or was ready and
        does not end it itself by joining or leaving.
    outstanding : ``In(1)``
        There are all-reduces to be given up.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                **dict.fromkeys(("joined", "ready", "flush", "aborted"), Out(1)),
                "outstanding": In(1),
            }
        )


class CreditsSignature(ParametricSignature):
    """Counting of a link's credits anew, seen from who wants it.

    Members
    -------
    resync : ``Out(1)``
        High for one cycle: have them counted anew, in both directions.
    counting : ``In(1)``
        They are being counted; always valid.
    home : ``In(1)``
        All credits are here, so that the other end holds nothing; always valid.
    """

    def __init__(self) -> None:
        super().__init__({"resync": Out(1), "counting": In(1), "home": In(1)})


class WorkSignature(ParametricSignature):
    """All-reduces that a lane does its share of, seen from `Control`.

    Members
    -------
    job : ``Out(stream.Signature(job_layout(config)))``
        The all-reduce; all lanes take it in the same cycle.
    done : ``In(1)``
        The lane has done its share: high until the next job.
    outcome : ``In(outcome_layout())``
        Why its result is not valid; valid when `done`.
    """

    def __init__(self, config: SwitchDmaConfig) -> None:
        super().__init__(
            {
                "job": Out(stream.Signature(job_layout(config))),
                "done": In(1),
                "outcome": In(outcome_layout()),
            },
            config=config,
        )


class WindowSignature(ParametricSignature):
    """Limits of the blocks in flight on a link, seen from who limits them.

    Members
    -------
    size_log2 : ``Out(4)``, outstanding : ``Out(6)``
        Blocks of a wave as a power of two; waves under way. Change only between all-reduces.
    """

    def __init__(self) -> None:
        super().__init__({name: Out(field.shape) for name, field in window_layout()})


class SettingsSignature(ParametricSignature):
    """Settings of all-reduces by software, seen from its registers; change only between them.

    Members
    -------
    whole : ``Out(1)``
        Loads ask for own operands, too.
    window : ``Out(WindowSignature())``
        The window of waves, as software wants it: a lane may have room for less.
    """

    def __init__(self) -> None:
        super().__init__({"whole": Out(1), "window": Out(WindowSignature())})


class BlockSignature(ParametricSignature):
    """The next block to be begun, seen from who begins it; valid while a job runs.

    Members
    -------
    first : ``Out(1)``
        It is a contract, the first of its all-reduce.
    number : ``Out(number_bits)``
        Its number on the link.
    block : ``Out(32)``
        Place in the vector of the next one that is no contract.
    begins : ``Out(1)``
        High for one cycle: it is begun.
    tail : ``Out(1)``
        The block before it, which was begun last, is the last of the vector.
    """

    def __init__(self, config: SwitchDmaConfig) -> None:
        super().__init__(
            {
                "first": Out(1), "number": Out(config.number_bits), "block": Out(32),
                "begins": Out(1), "tail": Out(1),
            },
            config=config,
        )


class BeginSignature(ParametricSignature):
    """Beginning of blocks, seen from who begins them; the other side is `WaveControl`.

    Members
    -------
    first : ``Out(1)``
        The next block is the first of an all-reduce, its contract; always valid.
    ready : ``In(1)``
        The next block may be begun; follows `first` in the same cycle.
    take : ``Out(1)``
        It is; only with `ready`.
    number : ``In(number_bits)``
        Number of the next block on the link; always valid.
    """

    def __init__(self, config: SwitchDmaConfig) -> None:
        super().__init__(
            {"first": Out(1), "ready": In(1), "take": Out(1), "number": In(config.number_bits)},
            config=config,
        )


class WaitedSignature(ParametricSignature):
    """Blocks whose results come, seen from who stores them; the other side is `WaveControl`.

    Members
    -------
    number : ``Out(number_bits)``
        A block's number; always valid ...
    known : ``In(1)``
        ... and whether it is under way, in the same cycle ...
    position : ``In(32)``
        ... and its place in its all-reduce, of which the first block's is 0; valid if `known` ...
    first, newest : ``In(1)``
        ... and whether it is the first, or the one that was begun last; the same.
    done : ``Out(1)``, over : ``Out(number_bits)``
        High for one cycle: the block of the number `over` is done; only if it is under way.
    """

    def __init__(self, config: SwitchDmaConfig) -> None:
        bits = config.number_bits
        super().__init__(
            {
                "number": Out(bits), "position": In(32),
                **dict.fromkeys(("known", "first", "newest"), In(1)),
                "done": Out(1), "over": Out(bits),
            },
            config=config,
        )


class AnswerSignature(ParametricSignature):
    """Blocks that others load, seen from who hears the loads; the other side is `WaveControl`.

    Members
    -------
    number : ``Out(number_bits)``
        A block's number; always valid ...
    due : ``In(1)``
        ... and whether it is under way, no load of it was answered yet, and it is no contract: in
        the same cycle, for one of the ``config.slots`` blocks that were begun last.
    answered : ``Out(1)``
        High for one cycle: the load of the block of this number is answered, which was due in the
        cycle before.
    """

    def __init__(self, config: SwitchDmaConfig) -> None:
        super().__init__(
            {"number": Out(config.number_bits), "due": In(1), "answered": Out(1)}, config=config
        )


class PartSignature(ParametricSignature):
    """Blocks of which parts of sums come, seen from who adds them; the other side is `WaveControl`.

    Members
    -------
    number : ``Out(number_bits)``
        A block's number; always valid ...
    row : ``Out(range(regions))``, only with several
        ... of the region in this row; the answers are there in the same cycle:
    ahead : ``In(1)``
        It is still to be begun here, while others may have begun it.
    near : ``In(1)``
        It is under way, or less than ``config.slots`` blocks ahead.
    asked_for : ``In(1)``
        It is under way, and its load went out.
    """

    def __init__(self, config: SwitchDmaConfig) -> None:
        c = config
        super().__init__(
            {
                "number": Out(c.number_bits),
                **({"row": Out(range(c.regions))} if c.regions > 1 else {}),
                **dict.fromkeys(("ahead", "near", "asked_for"), In(1)),
            },
            config=c,
        )
