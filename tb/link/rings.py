"""Rings of ACE engines and of smart NICs whose links have retry, on wires that fail."""

from functools import cache

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import connect, flipped

from gen.compile import compile_model
from gen.configured import compile_configured
from hw.ace.retry import RetryAce, RetryAceConfig, join_beats
from hw.link.packet import link_flits
from sim.rtl.ace_ring import AceRing
from sim.rtl.nic_ring import NicRing
from sim.rtl.switch_port import SwitchPort

__all__ = ["bad_wires", "retry_nic_ring", "retry_ring"]


class RetryPort(wiring.Component):
    """A smart NIC with its port of an Ethernet switch, behind links with retry."""

    def __init__(self, config, retry):
        self._config, self._retry = config, retry
        self._nic = SwitchPort(config)
        super().__init__(self._nic.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.nic = nic = self._nic
        connect(m, flipped(self.csr), nic.csr)
        for inner, outer in zip(nic.mem, self.mem, strict=True):
            connect(m, inner, flipped(outer))
        retries = join_beats(m, nic.link, self.link, flits=link_flits(self._config.bus_bytes),
                             config=self._retry)
        m.d.comb += [
            self.irq.eq(nic.irq),
            self.idle.eq(nic.idle & Cat(each.idle for each in retries).all()),
        ]
        return m


@cache
def _nic_model(config, retry, lanes):
    return compile_model(RetryPort(config, retry), name="retry_nic", lanes=lanes)


def retry_nic_ring(retry):
    """The driver of rings of smart NICs with this `RetryConfig`."""

    class RetryNicRing(NicRing):
        name = "retry_nic"

        @classmethod
        def compiled(cls, config, lanes=1):
            return _nic_model(config, retry, lanes)

    return RetryNicRing


def retry_ring(retry):
    """The driver of rings of ACE engines with this `RetryConfig`."""

    class RetryAceRing(AceRing):
        name = "retry_ace"

        @classmethod
        def compiled(cls, config, lanes=1):
            made = RetryAceConfig(ace=config, retry=retry)
            return compile_configured(RetryAce, made, name=cls.name, lanes=lanes)

    return RetryAceRing


def bad_wires(probability):
    """Settings of a ring with which every frame is lost, repeated, or damaged with this
    probability."""
    return dict.fromkeys(("link_loss", "link_repetition", "link_damage"), probability)
