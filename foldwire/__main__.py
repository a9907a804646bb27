"""``python -m foldwire`` is the command ``foldwire``."""

import sys

from foldwire.cli import main

if __name__ == "__main__":
    sys.exit(main())
