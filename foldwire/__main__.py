# SPDX-License-Identifier: Apache-2.0
"""The command ``foldwire``, and ``python -m foldwire``."""

import signal
import sys

from foldwire.process import settle

__all__ = ["main"]


def main() -> int:
    """Run the command line; Ctrl-C while it is being loaded ends it as at any other time."""
    settle()
    try:
        from foldwire import cli
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("foldwire: interrupted", file=sys.stderr)
        return 130
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
