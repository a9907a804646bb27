# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

# Worker processes get the search path of the process that starts them.
sys.path.insert(0, str(Path(__file__).parent))
