"""Recordings of ACE."""

from bench._recording import of_ring
from hw.ace.config import preset
from sim.rtl.ace.ring import AceRing

__all__ = ["RECORDINGS"]

RECORDINGS = {
    "ace/test": of_ring(AceRing, preset("test"), 512, "ACE test"),
    "ace/duo": of_ring(AceRing, preset("duo"), 512, "ACE duo"),
    "ace/ring": of_ring(AceRing, preset("ring"), 4096, "ACE ring"),
    "ace/wide": of_ring(AceRing, preset("wide"), 4096),
    "ace/isca21": of_ring(AceRing, preset("isca21"), 4096),
}
