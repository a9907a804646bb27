# SPDX-License-Identifier: Apache-2.0
"""An endpoint of the switch whose links have retry."""

from dataclasses import dataclass, replace
from typing import Any

from amaranth.hdl import Module

from hw.common.params import require_type
from hw.link.retry_frame import RetryConfig
from hw.link.with_retry import WithRetry
from hw.switch.retry import PacketRetry, join_links
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.dma import SwitchDma

__all__ = ["RetrySwitchDma", "RetrySwitchDmaConfig"]


@dataclass(frozen=True, kw_only=True)
class RetrySwitchDmaConfig:
    """An endpoint and its links. It has the registers of these, whatever *dma* says."""

    dma: SwitchDmaConfig
    retry: RetryConfig

    def __post_init__(self) -> None:
        object.__setattr__(self, "dma", replace(self.dma, retry=True))


class RetrySwitchDma(WithRetry):
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

    took: Any

    def __init__(self, config: RetrySwitchDmaConfig) -> None:
        self._retry = require_type("RetrySwitchDma config", config, RetrySwitchDmaConfig)
        c = config.dma
        super().__init__("dma", SwitchDma(c), c, trace=c.trace)

    def join(self, m: Module, engine: Any) -> list[PacketRetry]:
        return join_links(m, engine, self.link, plane=self.config, config=self._retry.retry)
