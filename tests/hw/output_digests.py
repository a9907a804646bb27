# SPDX-License-Identifier: Apache-2.0
"""Digests of what an engine does under fixed random inputs, to compare two versions of its RTL.

``python -m tests.hw.output_digests ace:test smartnic:test`` prints a line for each output port; two
versions that print the same lines had equal outputs in every cycle. Registers are written in turn
with plausible values and read at random; memory, links and network answer at random, so most
packets are damaged: what the engine does right, the tests of rings show.
"""

import argparse
import hashlib
import random

import numpy as np

from foldwire.catalog import build
from gen.compile import compile_model

ACCESS_CYCLES = 6
"""A write through the register bus takes no longer when its answer is taken at once."""

PLAUSIBLE = {
    "node": {"rank": 1, "nodes": 2},
    "elements": {"value": 300},
    "stride": {"value": 160},
    "block": {"value": 32},
    "memory_end_low": {"value": 0xFFFF},
    "memory_end_high": {"value": 0},
    "source_high": {"value": 0},
    "destination_low": {"value": 0x2000},
    "destination_high": {"value": 0},
    "source_low": {"value": 0x1000},
    "fsms": {"count": 1},
}


def register_writes(registers, rng):
    """Offsets and words: a set-up, then commands, aborts and, rarely, anything at all."""
    for name, fields in PLAUSIBLE.items():
        if register := registers.registers.get(name):
            names = {each.name for each in register.fields}
            known = {field: value for field, value in fields.items() if field in names}
            yield registers.offset(name), register.pack(**known)
    writable = [each.name for each in registers.registers.values() if each.access != "ro"]
    yield registers.offset("interrupt_enable"), 0b10101
    while True:
        draw = rng.random()
        if draw < 0.4:
            yield registers.offset("command"), rng.getrandbits(9)
        elif draw < 0.45:
            yield registers.offset("control"), 1
        elif draw < 0.6:
            yield registers.offset("interrupt"), rng.getrandbits(6)
        else:
            name = rng.choice([each for each in writable if each not in PLAUSIBLE])
            yield registers.offset(name), rng.getrandbits(32)
        for _ in range(rng.choice((0, 0, 4, 40))):
            yield 0, 0  # identity: refused, and a fault


def stimulus(ports, registers, cycles, rng):
    """A row of inputs for each cycle."""
    rows = {}
    for port in ports:
        if not port.is_input or port.name == "rst":
            continue
        chunks = max(1, -(-port.width // 32))
        table = np.frombuffer(rng.randbytes(4 * chunks * cycles), dtype=np.uint32).copy()
        table = table.reshape(cycles, chunks)
        if port.width == 1:
            table = (table < int(rng.choice((0.3, 0.7, 0.95)) * 2**32)).astype(np.uint32)
        else:
            table[:, -1] >>= np.uint32(32 * chunks - port.width)
        rows[port.name] = table
    writes = register_writes(registers, rng)
    words = [next(writes) for _ in range(cycles // ACCESS_CYCLES + 1)]
    turn, phase = np.arange(cycles) // ACCESS_CYCLES, np.arange(cycles) % ACCESS_CYCLES
    for name, index in (("awaddr", 0), ("wdata", 1)):
        rows[f"csr_{name}"] = np.array([word[index] for word in words], np.uint32)[turn][:, None]
    for name in ("awvalid", "wvalid"):
        rows[f"csr_{name}"] = (phase == 0).astype(np.uint32)[:, None]
    rows["csr_wstrb"] = np.full((cycles, 1), 15, np.uint32)
    rows["csr_bready"] = np.ones((cycles, 1), np.uint32)
    rows["csr_araddr"] %= np.uint32(registers.size)
    return rows


def digests(design, preset, *, cycles, seed=0):
    """Name and digest of each output, and the number of values that it took."""
    made = build(design, preset, {})
    model = compile_model(made.component, name=made.top)
    outputs = [port.name for port in model.ports if not port.is_input]
    with model.instance() as instance:
        instance.set("rst", 1)
        instance.cycle(2)
        instance.set("rst", 0)
        rows = stimulus(model.ports, made.registers, cycles, random.Random(seed))
        for name in list(rows):
            rows[name] = rows[name] if rows[name].shape[1] > 1 else rows[name][:, 0]
            if rows[name].ndim == 2 and rows[name].shape[1] == 2:
                low, high = rows[name].astype(np.uint64).T
                rows[name] = low | high << np.uint64(32)
        results = instance.run(rows, outputs)
    for name, values in results.items():
        digest = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]
        yield name, digest, len(np.unique(values, axis=0))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("designs", nargs="+", metavar="DESIGN:PRESET")
    parser.add_argument("--cycles", type=int, default=50_000)
    options = parser.parse_args()
    for name in options.designs:
        for line in digests(*name.split(":"), cycles=options.cycles):
            print(name, *line)


if __name__ == "__main__":
    main()
