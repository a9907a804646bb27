# SPDX-License-Identifier: Apache-2.0
"""Signatures that are made from parameters."""

from collections.abc import Mapping
from typing import Any

from amaranth.lib import wiring

__all__ = ["ParametricSignature"]


class ParametricSignature(wiring.Signature):
    """Base of signatures: two of one class and of equal parameters are equal.

    Parameters
    ----------
    members : mapping of str to Member
        As of ``amaranth.lib.wiring.Signature``.
    parameters
        What the members were made from, by name; also what is printed.
    """

    def __init__(self, members: Mapping[str, wiring.Member], **parameters: Any) -> None:
        self._parameters = parameters
        super().__init__(members)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._parameters == self._parameters

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}={value!r}" for name, value in self._parameters.items())
        return f"{type(self).__name__}({listed})"
