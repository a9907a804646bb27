"""An endpoint of the switch whose links have retry."""

from dataclasses import dataclass, replace
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Out, connect, flipped

from hw.common.engine import Engine
from hw.common.params import require_type
from hw.link.retry_frame import RetryConfig
from hw.link.retry_link import RETRY_COUNTS, join_counts, join_status
from hw.switch.layouts import LinkSignature
from hw.switch.retry import join_links
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.dma import SwitchDma
from hw.switch_dma.home import TOOK

__all__ = ["RetrySwitchDma", "RetrySwitchDmaConfig"]


@dataclass(frozen=True, kw_only=True)
class RetrySwitchDmaConfig:
    """An endpoint and its links. It has the registers of these, whatever *dma* says."""

    dma: SwitchDmaConfig
    retry: RetryConfig

    def __post_init__(self) -> None:
        object.__setattr__(self, "dma", replace(self.dma, retry=True))


class RetrySwitchDma(Engine):
    """`SwitchDma` behind links with retry.

    Parameters
    ----------
    config : RetrySwitchDmaConfig

    Members
    -------
    csr, irq, mem, took
        As of `SwitchDma`.
    link : ``Out(LinkSignature()).array(links)``
        Wires; their credits are not used.
    failed, up : ``Out(links)``
        Links that have failed; that work.
    resent, damaged, repeated : ``Out(32)``
        Frames of all links that were sent again; that came damaged; that came again. With
        ``trace``.
    idle : ``Out(1)``
        Nothing is held, and all that was sent was acknowledged.
    """

    link: Any
    took: Any
    failed: Signal
    up: Signal
    resent: Signal
    damaged: Signal
    repeated: Signal

    def __init__(self, config: RetrySwitchDmaConfig) -> None:
        self._retry = require_type("RetrySwitchDma config", config, RetrySwitchDmaConfig)
        c = config.dma
        trace = {"took": Out(TOOK).array(c.links), **RETRY_COUNTS} if c.trace else {}
        super().__init__(
            c, masters=c.links, link=Out(LinkSignature()).array(c.links), failed=Out(c.links),
            up=Out(c.links), **trace,
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._retry.dma
        m.submodules.dma = dma = SwitchDma(c)
        connect(m, flipped(self.csr), dma.csr)
        for k in range(c.links):
            connect(m, dma.mem[k], flipped(self.mem[k]))
            if c.trace:
                m.d.comb += self.took[k].eq(dma.took[k])
        retries = join_links(
            m, dma, self.link, plane=c, config=self._retry.retry
        )
        join_status(m, self, dma, retries)
        if c.trace:
            join_counts(m, self, retries)
        return m
