# SPDX-License-Identifier: Apache-2.0
"""Recordings of smart NICs, each together with its port of an Ethernet switch."""

from bench._recording import of_ring

__all__ = ["RECORDINGS"]

RECORDINGS = {
    "smartnic/test": of_ring("smartnic", "test", 4096, "smart NIC test"),
    "smartnic/40g": of_ring("smartnic", "40g", 8192, "smart NIC 40g"),
    "smartnic/100g": of_ring("smartnic", "100g", 8192, "smart NIC 100g"),
    "smartnic/400g": of_ring("smartnic", "400g", 32768),
}
