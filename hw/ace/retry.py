# SPDX-License-Identifier: Apache-2.0
"""An ACE engine whose links have retry."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, Value

from hw.ace.config import AceConfig
from hw.ace.engine import AceEngine
from hw.common.params import require_type
from hw.link.retry_beats import BeatRetry
from hw.link.retry_frame import RetryConfig
from hw.link.retry_link import RETRY_STATUS
from hw.link.with_retry import WithRetry

__all__ = ["RetryAce", "RetryAceConfig", "join_beats"]


@dataclass(frozen=True, kw_only=True)
class RetryAceConfig:
    """An engine and its links; with *trace* it shows what these have repeated."""

    ace: AceConfig
    retry: RetryConfig
    trace: bool = False


class RetryAce(WithRetry):
    """`AceEngine` behind links with retry.

    Parameters
    ----------
    config : RetryAceConfig

    Members
    -------
    csr, irq, mem
        As of `AceEngine`, with the registers of the links.
    link : ``Out(LinkSignature(flits)).array(ports)``
        Wires; their credits are not used.
    failed, up : ``Out(ports)``
        Links that were given up; that work.
    resent, damaged, repeated : ``Out(32)``
        Frames of all links that were sent again; that came damaged; that came again. With
        ``trace``.
    idle : ``Out(1)``
        Nothing is held, and all that was sent was acknowledged.
    """

    def __init__(self, config: RetryAceConfig) -> None:
        self._retry = require_type("RetryAce config", config, RetryAceConfig)
        c = config.ace
        super().__init__("ace", AceEngine(c, retry=True), c, trace=config.trace)

    def join(self, m: Module, engine: Any) -> list[BeatRetry]:
        flits, config = self._retry.ace.flits, self._retry.retry
        retries = join_beats(m, engine.link, self.link, flits=flits, config=config)
        for status, retry in zip(engine.status, retries, strict=True):
            m.d.comb += [status[name].eq(getattr(retry, name)) for name in RETRY_STATUS]
        return retries


def join_beats(
    m: Module, inner: Any, outer: Any, *, flits: int, config: RetryConfig
) -> list[BeatRetry]:
    """Retry between the links of an engine, *inner*, and wires in the place of these, *outer*.

    Both are arrays of `LinkSignature`; the wires' credits are not used.
    """
    made = []
    for k, (link, wire) in enumerate(zip(inner, outer, strict=True)):
        m.submodules[f"retry_{k}"] = retry = BeatRetry(flits, config)
        m.d.comb += [
            *_join(retry.i, link.tx),
            link.tx.credit.eq(retry.credit),
            *_join(link.rx, retry.o),
            retry.freed.eq(link.rx.credit),
            *_join(wire.tx, retry.tx),
            *_join(retry.rx, wire.rx, ready=False),
            wire.rx.tready.eq(1),
            wire.rx.credit.eq(0),
        ]
        made.append(retry)
    return made


def _join(to: Any, source: Any, *, ready: bool = True) -> list[Any]:
    """A stream of beats and an AXI4-Stream, one from the other."""
    if hasattr(to, "tdata"):
        p = source.p
        return [
            to.tvalid.eq(source.valid),
            to.tdata.eq(Value.cast(p.data)),
            to.tkeep.eq(p.keep),
            to.tuser.eq(p.start),
            source.ready.eq(to.tready),
        ]
    return [
        to.valid.eq(source.tvalid),
        Value.cast(to.p.data).eq(source.tdata),
        to.p.keep.eq(source.tkeep),
        to.p.start.eq(source.tuser),
        *([source.tready.eq(to.ready)] if ready else []),
    ]
