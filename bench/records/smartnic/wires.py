# SPDX-License-Identifier: Apache-2.0
"""All-reduces of smart NICs over bad wires."""

from functools import partial

from bench._bad_wires import of_rings

__all__ = ["over_bad_wires"]

over_bad_wires = partial(of_rings, "smartnic", "smart NICs")
