# SPDX-License-Identifier: Apache-2.0
"""Settings of a process that runs one command and ends."""

import atexit
import gc
import os

__all__ = ["settle"]

YOUNG_OBJECTS = 100_000
"""Made between two searches for garbage. Loading makes half of that, and next to no garbage."""


def settle() -> None:
    """Make a short process cheap; call it before numpy is loaded.

    All of this is the interpreter's or the user's, so nothing that can be imported by a program of
    somebody else's calls it.
    """
    # No command has matrices worth a thread, and numpy starts one for each core as it is imported;
    # these spin.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(YOUNG_OBJECTS)
    # Python searches all objects twice before it ends, and the process takes them along anyhow.
    atexit.register(gc.freeze)
