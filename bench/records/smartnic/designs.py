# SPDX-License-Identifier: Apache-2.0
"""Designs of the smart NIC on which a change is looked for."""

from bench.mutation.plain import Components
from hw.smartnic.config import preset
from hw.smartnic.nic import SmartNic

__all__ = ["DESIGNS"]


def _smartnic() -> Components:
    yield SmartNic(preset("test"))


DESIGNS = {"registers": _smartnic, "all-reduce": _smartnic, "smartnic": _smartnic}
