# SPDX-License-Identifier: Apache-2.0
"""The harness's C interface, as ctypes sees it."""

import ctypes
import weakref
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_uint32,
    c_uint64,
    c_void_p,
)
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sim.rtl.harness.compile import build_harness

__all__ = [
    "BEAT_RECORD",
    "OPERATION",
    "OUTCOME",
    "TOKEN",
    "Harness",
    "LinkReport",
    "MemoryReport",
    "NodeConfig",
    "NodeShape",
    "SystemConfig",
    "WireConfig",
    "array_at",
]

OPERATION = np.dtype(
    [
        ("kind", "<u4"),
        ("address", "<u4"),
        ("value", "<u4"),
        ("mask", "<u4"),
        ("cycles", "<u8"),
        ("allow_error", "<u4"),
        ("padding", "<u4"),
    ]
)
OUTCOME = np.dtype([("cycle", "<u8"), ("value", "<u4"), ("response", "<u4")])
TOKEN = np.dtype(
    [
        ("cycle", "<u8"),
        ("keep", "<u4"),
        ("user", "<u4"),
        ("credit", "<u4"),
        ("padding", "<u4"),
        ("data", "u1", (128,)),
    ]
)
BEAT_RECORD = np.dtype([("cycle", "<u8"), ("flits", "<u4"), ("header_flits", "<u4")])


def _all(kind: Any, *names: str) -> list[tuple[str, Any]]:
    """Fields of one kind."""
    return [(name, kind) for name in names]


class SystemConfig(Structure):
    _fields_ = [
        *_all(c_uint64, "seed", "window_cycles", "quantum_cycles", "bucket_cycles"),
        *_all(c_int32, "threads", "skip_idle", "record_beats"),
    ]


class NodeConfig(Structure):
    _fields_ = [
        ("engine", c_char_p),
        ("memory", c_void_p),
        *_all(
            c_uint64, "memory_base_address", "memory_bytes",
            "read_latency_cycles", "write_latency_cycles",
        ),
        *_all(
            c_double, "bytes_per_cycle", "memory_beats_per_cycle", "memory_stall_probability",
            "host_stall_probability",
        ),
        *_all(c_uint32, "outstanding_bursts", "drawn_as"),
    ]


class WireConfig(Structure):
    _fields_ = [
        *_all(c_int32, "from_node", "from_port", "to_node", "to_port"),
        ("latency_cycles", c_uint64),
        *_all(c_double, "stall_probability", "beats_per_cycle", "damage", "loss", "repetition"),
        ("packet_flits", c_uint64),
    ]


class NodeShape(Structure):
    memory_ports: int
    link_ports: int
    bus_bytes: int
    has_host: int
    _fields_ = [
        *_all(c_int32, "memory_ports", "link_ports", "bus_bytes", "has_host"),
    ]


class LinkReport(Structure):
    beats: int
    flits: int
    header_flits: int
    first_cycle: int
    last_cycle: int
    stalled_cycles: int
    beat_series: int | None
    header_series: int | None
    payload_series: int | None
    buckets: int
    records: int | None
    _fields_ = [
        *_all(
            c_uint64, "beats", "flits", "header_flits",
            "first_cycle", "last_cycle", "stalled_cycles",
        ),
        *_all(c_void_p, "beat_series", "header_series", "payload_series"),
        ("buckets", c_uint64),
        ("records", c_void_p),
    ]


class MemoryReport(Structure):
    read_bytes: int
    written_bytes: int
    read_bursts: int
    write_bursts: int
    decode_errors: int
    read_series: int | None
    written_series: int | None
    read_buckets: int
    written_buckets: int
    _fields_ = [
        *_all(
            c_uint64, "read_bytes", "written_bytes", "read_bursts", "write_bursts", "decode_errors",
        ),
        *_all(c_void_p, "read_series", "written_series"),
        *_all(c_uint64, "read_buckets", "written_buckets"),
    ]


def array_at(address: int | None, count: int, dtype: np.dtype) -> np.ndarray:
    """A copy of ``count`` items at a C address."""
    if count == 0 or address is None:
        return np.zeros(0, dtype)
    return np.frombuffer(ctypes.string_at(address, count * dtype.itemsize), dtype).copy()


@cache
def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    system, node = c_void_p, c_int
    signatures = {
        "fws_create": (c_void_p, [POINTER(SystemConfig)]),
        "fws_destroy": (None, [system]),
        "fws_error": (c_char_p, [system]),
        "fws_add_node": (c_int, [system, POINTER(NodeConfig), POINTER(NodeShape)]),
        "fws_set_input": (c_int, [system, node, c_char_p, c_uint64]),
        "fws_get_output": (c_int, [system, node, c_char_p, POINTER(c_uint64)]),
        "fws_watch": (c_int, [system, node, c_char_p]),
        "fws_samples": (c_uint64, [system, node, POINTER(c_void_p)]),
        "fws_add_wire": (c_int, [system, POINTER(WireConfig)]),
        "fws_add_link_fault": (
            c_int, [system, node, c_int, c_int, c_uint64, c_uint64, POINTER(c_int32), c_int]
        ),
        "fws_fail_memory": (c_int, [system, node, c_uint64, c_uint64, c_int, c_int]),
        "fws_pace_memory": (None, [system, node, c_int, c_uint64]),
        "fws_quiet_since": (c_uint64, [system]),
        "fws_forget_faults": (None, [system, node, c_int]),
        "fws_cut": (c_int, [system, node, c_int, c_int]),
        "fws_strain": (c_int, [system, node, c_int, POINTER(c_double)]),
        "fws_tap": (c_int, [system, node, c_int, c_uint64]),
        "fws_add_packet": (c_int, [system, node, c_int, c_char_p, c_uint64, c_int]),
        "fws_added": (c_uint64, [system, node, c_int]),
        "fws_reset_engine": (c_int, [system, node, c_int]),
        "fws_struck": (c_uint64, [system, node, c_int]),
        "fws_given_up": (c_uint32, [system, node]),
        "fws_met": (None, [system, node, c_int, POINTER(c_uint64)]),
        "fws_start": (c_int, [system]),
        "fws_push": (None, [system, node, c_void_p, c_uint64]),
        "fws_give_up": (None, [system]),
        "fws_outcomes": (c_uint64, [system, node, POINTER(c_void_p)]),
        "fws_run": (c_int, [system, c_uint64, c_double, c_int]),
        "fws_advance": (c_int, [system, c_uint64]),
        "fws_external_read": (c_int, [system, node, c_int, c_uint64, c_uint64, c_void_p]),
        "fws_external_write": (c_int, [system, node, c_int, c_void_p, c_uint64]),
        "fws_cycle": (c_uint64, [system]),
        "fws_stepped_cycles": (c_uint64, [system, node]),
        "fws_link_report": (None, [system, node, c_int, POINTER(LinkReport)]),
        "fws_memory_report": (None, [system, node, c_int, POINTER(MemoryReport)]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


class Harness:
    """A system in the harness, destroyed with the last reference to this object."""

    def __init__(self, config: SystemConfig) -> None:
        self._library = _load(build_harness())
        self._handle = self._library.fws_create(ctypes.byref(config))
        weakref.finalize(self, self._library.fws_destroy, self._handle)

    def call(self, function: str, *arguments: object) -> Any:
        """Call a function of the interface by its name without ``fws_``; return its result."""
        return getattr(self._library, f"fws_{function}")(self._handle, *arguments)

    def check(self, function: str, *arguments: object) -> int:
        """As :meth:`call`; a negative result is a ``ValueError`` with the harness's message."""
        result: int = self.call(function, *arguments)
        if result < 0:
            raise ValueError(self.error())
        return result

    def error(self) -> str:
        """The harness's message for its last error."""
        return str(self.call("error").decode())
