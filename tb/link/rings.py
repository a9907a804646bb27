"""Rings of ACE engines and systems of switches whose links have retry, on wires that fail."""

import random

from gen.configured import compile_configured
from hw.ace.retry import RetryAce, RetryAceConfig
from sim.rtl.ace_ring import AceRing
from sim.rtl.specs import HeaderFault, PacketFault, PayloadFault

__all__ = ["draw_faults", "retry_ring"]


def retry_ring(retry):
    """The driver of rings of ACE engines with this `RetryConfig`."""

    class RetryAceRing(AceRing):
        name = "retry_ace"

        @classmethod
        def compiled(cls, config):
            made = RetryAceConfig(ace=config, retry=retry)
            return compile_configured(RetryAce, made, name=cls.name)

    return RetryAceRing


def draw_faults(rng: random.Random, probability, *, nodes, ports=2, frames=2000):
    """Faults of the first *frames* frames of every port: each is lost, repeated, or damaged in its
    header or behind it with this probability."""
    faults = []
    for node in range(nodes):
        for port in range(ports):
            at = {"node": node, "port": port}
            for packet in range(frames):
                kind = rng.random() / probability if probability else 9
                at["packet"] = packet
                if kind < 1:
                    faults.append(PacketFault(**at))
                elif kind < 2:
                    faults.append(PacketFault(**at, repeat=True))
                elif kind < 2.5:
                    faults.append(HeaderFault(**at, bits=_bits(rng, 128)))
                elif kind < 3:
                    faults.append(PayloadFault(**at, bits=_bits(rng, 512)))
    return faults


def _bits(rng, limit):
    return tuple(rng.sample(range(limit), rng.randint(1, 3)))
