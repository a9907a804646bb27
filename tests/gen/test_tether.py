# SPDX-License-Identifier: Apache-2.0
"""Tools do not outlive a command that is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gen.tether import tethered

ROOT = Path(__file__).parents[2]
PARENT = """
import subprocess, sys
from gen.tether import tethered
command = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(60)"]
child = subprocess.Popen(tethered(command) if int(sys.argv[1]) else command, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux can do this")
@pytest.mark.parametrize("tied", [True, False])
def test_a_child_is_gone_when_its_parent_was_killed(tied):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(int(tied))], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    child = int(parent.stdout.readline())
    try:
        parent.kill()
        parent.communicate()
        until = time.monotonic() + (10 if tied else 0.5)
        while alive(child) and time.monotonic() < until:
            time.sleep(0.02)
        assert alive(child) != tied
    finally:
        if alive(child):
            os.kill(child, signal.SIGKILL)


def test_a_command_runs_as_it_would_alone():
    done = subprocess.run(
        tethered([sys.executable, "-c", "import sys; print(sys.argv[1:]); sys.exit(3)", "a b", ""]),
        capture_output=True, text=True, check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "['a b', '']\n", "")
