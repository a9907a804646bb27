# SPDX-License-Identifier: Apache-2.0
"""Emit the published-size engine as Verilog: seconds, lines, modules."""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from bench.options import bench_parser
from bench.result import result
from gen.verilog import emit
from hw.ace.config import preset
from hw.ace.engine import AceEngine

TARGET_SECONDS = 30.0


def _measure(name: str) -> dict[str, object]:
    # A child of its own, so that imports and a cold start count: it is what a user waits for.
    code = (
        "import json, resource, sys, time\n"
        "start = time.perf_counter()\n"
        "from dataclasses import asdict\n"
        "from gen.verilog import emit\n"
        "from hw.ace.config import preset\n"
        "from hw.ace.engine import AceEngine\n"
        f"config = preset({name!r})\n"
        "emitted = emit(AceEngine(config), name='ace', header=asdict(config))\n"
        "both = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN\n"
        "used = [resource.getrusage(who) for who in both]\n"
        "print(json.dumps({'seconds': time.perf_counter() - start,\n"
        "    'cpu': sum(u.ru_utime + u.ru_stime for u in used), 'text': emitted.text}))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    measured: dict[str, object] = json.loads(run.stdout)
    return measured


def _bodies(text: str) -> list[str]:
    """Module bodies without the name of the module: equal ones should have been merged."""
    return [
        re.sub(r"^module \w+", "module", body)
        for body in re.findall(r"^module .*?^endmodule", text, re.MULTILINE | re.DOTALL)
    ]


def main(argv: Sequence[str]) -> int:
    """Print the figures of one preset."""
    options = bench_parser("emit", __doc__, preset=("engine", "isca21")).parse_args(argv)
    measured = _measure(options.preset)
    config = preset(options.preset)
    text = str(measured["text"])
    bodies = _bodies(text)
    twice = sum(count - 1 for count in Counter(bodies).values())
    again = emit(AceEngine(config), name="ace", header=asdict(config)).text
    seconds = float(str(measured["seconds"]))
    print(f"preset {options.preset}: {asdict(config)}")
    print(
        f"{seconds:.1f} s ({float(str(measured['cpu'])):.1f} s of CPU), interpreter start excluded"
    )
    print(
        f"{text.count(chr(10))} lines, {len(bodies)} modules with SRAM macros, "
        f"{twice} written twice"
    )
    print(f"a second emission gives {'the same text' if again == text else 'ANOTHER TEXT'}")
    good = seconds < TARGET_SECONDS and twice == 0 and again == text
    result(
        "emit",
        seconds=seconds,
        lines=text.count("\n"),
        modules=len(bodies),
        duplicates=twice,
        verdict="ok" if good else "short",
    )
    return 0
