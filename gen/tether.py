# SPDX-License-Identifier: Apache-2.0
"""Child processes that end with the one that starts them, however that ends.

Ctrl-C reaches a child, and an exception kills it; but a parent that is itself killed would leave a
tool at work for minutes.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

__all__ = ["tethered"]

_PR_SET_PDEATHSIG = 1  # of linux/prctl.h


def tethered(command: Sequence[str]) -> list[str]:
    """*command*, such that its process is killed when its parent is gone.

    Linux alone can do this; elsewhere it is *command* as it stands.
    """
    if not sys.platform.startswith("linux"):
        return list(command)
    return [sys.executable, "-I", "-S", __file__, *command]


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # outlives what follows
    os.execvp(sys.argv[1], sys.argv[1:])
