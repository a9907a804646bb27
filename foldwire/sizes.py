# SPDX-License-Identifier: Apache-2.0
"""Sizes on the command line: bytes, or with K, M, G for powers of 1024, as in nccl-tests."""

import re
from typing import Any

import click

__all__ = ["SIZE"]

UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


class _Size(click.ParamType):
    name = "size"

    def __init__(self, least: int) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d+)([KMGT]?)(?:i?B)?", value.strip(), re.IGNORECASE)
        size = int(found[1]) << UNITS[found[2].upper()] if found else -1
        if not self.least <= size < 1 << 63:
            self.fail(
                f"must be a number of bytes from {self.least}, as 4096, 64K, 1M or 8G, not "
                f"{value!r}", param, ctx
            )
        return size


SIZE = _Size(4)
"""At least an element."""
