# SPDX-License-Identifier: Apache-2.0
"""Sharing the hardware description of blocks that a design holds many times."""

from typing import Any

from amaranth.lib import wiring

__all__ = ["once"]


def once(platform: Any, component: wiring.Component, name: str) -> Any:
    """The submodule to add for *component*, of which there are many in the design.

    A platform with a method ``build_once(component, name)`` makes hardware of the first one called
    *name* and gives an instance of that for each; anywhere else it is *component* itself. Equal
    names must mean equal hardware, so a name tells all parameters.
    """
    build = getattr(platform, "build_once", None)
    return component if build is None else build(component, name)
