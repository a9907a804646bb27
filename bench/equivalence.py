"""Every component proved equal to Amaranth's netlist, planted errors found, components replayed.

Components are those of `bench/parts.py`. Errors are single changes of the text, drawn by syntax and
seed; one that the proof does not find is proved to change nothing. Random inputs are replayed by
the text under Verilator and by the compiled model, every output in every cycle.
"""

import argparse
import random
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.parts import MULTIPLIERS, PARTS
from bench.result import result
from bench.text_mutants import draw
from foldwire.console import say
from gen.compile import compile_model
from gen.rtlil import Port
from gen.sv.proof import Proof, Side, prove, reference, written
from gen.verilator import find_verilator, has_verilator
from gen.verilog import emit
from gen.yosys import YosysError

__all__ = ["main"]

CYCLES = 1200
REPLAYED = ("AXI4Writer", "TransmitPort", "ReduceALU")
MUTATED = ("StreamFIFO", "SkidBuffer", "StreamArbiter", "RoundRobinArbiter", "BurstSplitter",
           "Count", "Split", "AbortControl", "PortSync", "BlockWalker", "PacketOutcome", "SendUnit")


def _proved(name: str, timeout: float) -> Proof:
    make = PARTS[name]
    gate, text = written(make)
    narrow = name in MULTIPLIERS
    return prove(reference(make), gate, text, timeout=timeout, narrow=narrow)


def _mutants(count: int, seed: int, timeout: float) -> tuple[int, int, int]:
    """Mutants tried, found, and proved equivalent; what no tool reads is drawn again."""
    tried = found = equivalent = 0
    each = -(-count // len(MUTATED))
    for name in MUTATED:
        gold = reference(PARTS[name])
        gate, text = written(PARTS[name])
        left = each
        for mutant in draw(gate.text, 3 * each, seed):
            if not left:
                break
            try:
                proof = prove(gold, Side(mutant.text, True, gate.boxes), text, timeout=timeout)
            except YosysError:
                continue
            left -= 1
            tried += 1
            found += not proof.proved and not proof.undecided
            equivalent += proof.proved
            if proof.proved:
                say(f"  {name} line {mutant.line}, equivalent: {mutant.before} -> {mutant.after}")
    return tried, found, equivalent


_MAIN = """#include "Vtop.h"
#include <cstdio>
int main() {{
  Vtop top;
  for (unsigned row = 0; row < {rows}; row++) {{
    unsigned word;
{read}    top.clk = 0; top.eval(); top.clk = 1; top.eval();
{write}    std::putchar('\\n');
  }}
}}
"""


def _access(port: Port, word: int) -> str:
    if port.width > 64:
        return f"top.{port.name}[{word}]"
    return f"top.{port.name}" if port.width <= 32 else f"((uint32_t *)&top.{port.name})[{word}]"


def _replay(name: str, folder: Path, seed: int) -> tuple[int, int]:
    """Cycles run and outputs that differ, the text under Verilator against the compiled model."""
    make = PARTS[name]
    model = compile_model(make(), name="replayed")
    rng = random.Random(seed)
    inputs = [port for port in model.ports if port.is_input]
    outputs = [port for port in model.ports if not port.is_input]
    rows = [
        [rng.getrandbits(port.width) if port.name != "rst" else int(row < 2) for port in inputs]
        for row in range(CYCLES)
    ]
    with model.instance() as instance:
        seen = []
        for row in rows:
            for port, value in zip(inputs, row, strict=True):
                instance.set(port.name, value)
            instance.cycle()
            seen.append([instance.get(port.name) for port in outputs])
    words = [(port, word) for port in inputs for word in range(-(-port.width // 32))]
    shown = [(port, word) for port in outputs for word in reversed(range(-(-port.width // 32)))]
    read = "".join(
        f'    if (std::scanf("%x", &word) != 1) return 1;\n    {_access(port, word)} = word;\n'
        for port, word in words
    )
    write = "".join(
        f'    std::printf("%s%08x", "{" " if word == -(-port.width // 32) - 1 else ""}", '
        f"(unsigned){_access(port, word)});\n"
        for port, word in shown
    )
    (folder / "replayed.sv").write_text(emit(make(), name="replayed", style="sv").text)
    (folder / "main.cc").write_text(_MAIN.format(rows=CYCLES, read=read, write=write))
    program = find_verilator().build(
        [folder / "replayed.sv", folder / "main.cc"], top="replayed", folder=folder / "build",
        arguments=["-O3"],
    )
    stimulus = "\n".join(
        " ".join(
            f"{value >> 32 * word & 0xFFFFFFFF:x}"
            for port, value in zip(inputs, row, strict=True)
            for word in range(-(-port.width // 32))
        )
        for row in rows
    )
    run = subprocess.run(
        [program], cwd=folder, input=stimulus, capture_output=True, text=True, check=True
    )
    told = [[int(word, 16) for word in line.split()] for line in run.stdout.splitlines()]
    wrong = sum(
        one != other
        for ours, theirs in zip(told[2:], seen[2:], strict=True)
        for one, other in zip(ours, theirs, strict=True)
    )
    return len(told), wrong


def main(argv: Sequence[str]) -> int:
    """Print what was proved, found and replayed."""
    parser = argparse.ArgumentParser(prog="python -m bench equivalence", description=__doc__)
    parser.add_argument("parts", nargs="*", help="components to prove; all if none is named")
    parser.add_argument("--mutants", type=int, default=48, help="how many errors to plant (48)")
    parser.add_argument("--seed", type=int, default=1, help="of the draws (1)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds of a proof (300)")
    options = parser.parse_args(argv)
    for name in options.parts:
        if name not in PARTS:
            raise SystemExit(f"bench equivalence: no part {name!r}; there are: {', '.join(PARTS)}")
    start = time.perf_counter()
    proofs = {}
    for name in options.parts or PARTS:
        proof = proofs[name] = _proved(name, options.timeout)
        verdict = "proved" if proof.proved else "undecided" if proof.undecided else proof.why
        say(f"  {name:28}{proof.state:5} registers {proof.seconds:7.1f} s  {verdict}")
    tried, found, equivalent = _mutants(options.mutants, options.seed, options.timeout)
    replayed = mismatches = 0
    if has_verilator():
        for name in REPLAYED:
            with tempfile.TemporaryDirectory(prefix="replay-") as folder:
                cycles, wrong = _replay(name, Path(folder), options.seed)
            say(f"  {name}: {cycles} cycles replayed, {wrong} values differ")
            replayed, mismatches = replayed + 1, mismatches + wrong
    else:
        say("Verilator is not installed: nothing is replayed")
    say(f"{time.perf_counter() - start:.0f} s")
    proved = sum(proof.proved for proof in proofs.values())
    undecided = sum(proof.undecided for proof in proofs.values())
    good = proved == len(proofs) >= 30 and found + equivalent == tried >= 40
    result(
        "equivalence", components=len(proofs), proved=proved, undecided=undecided,
        replayed=replayed, mismatches=mismatches, mutants=tried, found=found, equivalent=equivalent,
        verdict="ok" if good and replayed >= 3 and not mismatches else "short",
    )
    return 0
