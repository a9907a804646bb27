"""Foldwire: collective-communication hardware for distributed training.

``import foldwire as fw`` is the public door; everything here is re-exported from ``hw`` (the
hardware), ``gen`` (Verilog, compiled models, synthesis) and ``sim`` (systems and workloads).
"""

from foldwire.version import __version__

__all__ = ["__version__"]
