# SPDX-License-Identifier: Apache-2.0
"""Block floating point: error on real gradients, compression on the wire, area of the codec."""

import argparse
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from amaranth.lib import wiring

from bench.result import result
from gen.rtlil import to_rtlil
from gen.synth import LIBERTY_OSU018, synthesize
from gen.yosys import run_yosys, yosys_version
from hw.bfp.codec import Compressor, Decompressor
from hw.bfp.decoder import BlockDecoder
from hw.bfp.encoder import BlockEncoder
from hw.bfp.format import PRESETS, BlockFormat, preset
from hw.bfp.gearbox import Packer, Unpacker
from hw.smartnic.config import HEADER_BYTES, SmartNicConfig
from sim.learning import training
from sim.learning.datasets import Dataset, load_digits

__all__ = ["main"]

WORKERS = 4
STEPS = 121
SAMPLED = (0, 10, 40, 80, 120)  # steps whose gradients are kept: the first, the last, some between
ELEMENTS = 1 << 20
PREAMBLE_BYTES, CHECK_BYTES, GAP_BYTES = 8, 4, 12
PUBLISHED_ALMS, PUBLISHED_M20KS = 2857, 120  # BFP compression of the FPGA smart NIC, its Table I
LANES = 16
PAYLOADS = (256, 1408, 4096, 8192)
RATIO_BAR = 3.76
COMBINATIONAL_BAR, PIPELINED_BAR, DEPTH_BAR = 6.0, 12.0, 37

Floats = npt.NDArray[np.float32]


def main(argv: Sequence[str]) -> int:
    """Print the tables and the result line."""
    parser = argparse.ArgumentParser(prog="python -m bench bfp", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the training run (default: 0)")
    options = parser.parse_args(argv)

    gradients = _gradients(options.seed)
    errors = _errors(gradients)
    nic = SmartNicConfig()
    payload = nic.frame_beats * nic.bus_bytes
    ratio, framed = _ratios(payload)
    area = _area()
    good = ratio >= RATIO_BAR
    if area is not None:
        kge, pipelined, depth = area
        good &= kge <= COMBINATIONAL_BAR and pipelined <= PIPELINED_BAR and depth <= DEPTH_BAR
    result(
        "bfp",
        ratio_bfp16=ratio,
        ratio_framed=framed,
        frame_payload_bytes=payload,
        snr_db_bfp16=errors["bfp16"],
        snr_db_bfp12=errors["bfp12"],
        snr_db_mxint8=errors["mxint8"],
        kge_encoder="none" if area is None else round(area[0], 3),
        kge_encoder_pipelined="none" if area is None else round(area[1], 3),
        depth_pipelined="none" if area is None else area[2],
        yosys=yosys_version(),
        verdict="ok" if good and area is not None else "short",
    )
    return 0


# ---- Error on real gradients.


def _gradients(seed: int) -> dict[int, list[Floats]]:
    """Gradients of a training run: step -> one flat vector per worker."""
    kept: dict[int, list[Floats]] = {}
    step = 0

    def all_reduce(vectors: list[Floats]) -> list[Floats]:
        nonlocal step
        if step in SAMPLED:
            kept[step] = [vector.copy() for vector in vectors]
        step += 1
        total: Floats = np.asarray(np.sum(vectors, axis=0, dtype=np.float32))
        return [total] * len(vectors)

    digits = load_digits()
    run = training.train(all_reduce, digits, workers=WORKERS, steps=STEPS, seed=seed)
    print(
        f"gradients of {WORKERS} workers, batch 32, on scikit-learn's handwritten digits: "
        f"{training.gradient_size(digits)} elements each,\nsteps {', '.join(map(str, SAMPLED))}; "
        f"loss {run.losses[0]:.2f} -> {run.losses[-1]:.2f}, accuracy {run.accuracy:.3f}\n"
    )
    return kept


def _layers(data: Dataset) -> dict[str, slice]:
    """Slices of the weights and biases of each layer in a flat vector."""
    names = ("hidden weights", "hidden biases", "output weights", "output biases")
    ends = np.cumsum([int(np.prod(shape)) for shape in training.weight_shapes(data)]).tolist()
    return {
        name: slice(start, end)
        for name, start, end in zip(names, [0, *ends[:-1]], ends, strict=True)
    }


def _snr(values: Floats, quantized: Floats) -> float:
    noise = float(np.sum((quantized.astype(np.float64) - values) ** 2))
    signal = float(np.sum(values.astype(np.float64) ** 2))
    return float(10 * np.log10(signal / noise)) if noise else float("inf")


def _errors(gradients: dict[int, list[Floats]]) -> dict[str, float]:
    """Print error statistics per format and, for BFP16, per layer and step."""
    everything = np.concatenate([vector for vectors in gradients.values() for vector in vectors])
    summed = np.concatenate([np.sum(vectors, axis=0) for vectors in gradients.values()])
    row = "{:17} {:>5} {:>6} {:>8} {:>9} {:>9} {:>8} {:>9} {:>9}"
    print(
        row.format(
            "format",
            "bits",
            "ratio",
            "SNR dB",
            "rms rel.",
            "max rel.",
            "to zero",
            "bias",
            "ring dB",
        )
    )
    found = {}
    for name, fmt in PRESETS.items():
        quantized = fmt.quantize(everything, seed=1)
        error = quantized.astype(np.float64) - everything
        rms = float(np.sqrt(np.mean(everything.astype(np.float64) ** 2)))
        found[name] = _snr(everything, quantized)
        lost = float(np.mean((quantized == 0) & (everything != 0)))
        # Truncation would bias every element towards zero.
        bias = float(np.mean(error * np.sign(everything)) / np.mean(np.abs(everything)))
        ring = np.concatenate([_ring(fmt, vectors) for vectors in gradients.values()])
        print(
            row.format(
                name,
                f"{fmt.block_bits / fmt.elements:.2f}",
                f"{fmt.ratio:.2f}",
                f"{found[name]:.1f}",
                f"{np.sqrt(np.mean(error**2)) / rms:.2e}",
                f"{np.max(np.abs(error)) / np.max(np.abs(everything)):.2e}",
                f"{lost:.2%}",
                f"{bias:+.1e}",
                f"{_snr(summed, ring):.1f}",
            )
        )
    print(
        "\nrms and max rel.: error over rms and maximum of the gradients; to zero: numbers that"
        "\nbecame 0; bias: mean error away from zero over the mean magnitude; ring: the sum of all"
        f"\nworkers after a ring all-reduce that rounds at each of its {WORKERS} sends\n"
    )
    fmt = preset("bfp16")
    print("SNR of bfp16 in dB".ljust(19) + "".join(f"step {step:<6}" for step in gradients))
    for layer, place in _layers(load_digits()).items():
        figures = []
        for vectors in gradients.values():
            values = np.concatenate([vector[place] for vector in vectors])
            figures.append(f"{_snr(values, fmt.quantize(values)):<11.1f}")
        print(layer.ljust(19) + "".join(figures))
    print()
    return found


def _ring(fmt: BlockFormat, vectors: list[Floats]) -> Floats:
    """The sum as a ring computes it: encoded at every send, added in binary32, then sent round."""
    partial = vectors[0]
    for hop, vector in enumerate(vectors[1:], start=1):
        partial = fmt.quantize(partial, seed=hop) + vector
    return fmt.quantize(partial, seed=len(vectors))


# ---- Compression on the wire.


def _wire_bytes(packed: int, payload: int) -> int:
    """Link time, in bytes, that *packed* bytes take in frames of *payload* bytes."""
    overhead = PREAMBLE_BYTES + HEADER_BYTES + CHECK_BYTES + GAP_BYTES
    return packed + -(-packed // payload) * overhead


def _ratios(payload: int) -> tuple[float, float]:
    """Print the ratios of all formats; return those of BFP16, bare and framed."""
    values = np.random.default_rng(0).standard_normal(ELEMENTS, dtype=np.float32)
    plain = values.nbytes
    print(
        f"{ELEMENTS} binary32 numbers over what they become on the wire; a frame has preamble and"
        f"\nstart {PREAMBLE_BYTES} B, header {HEADER_BYTES} B (14 of them Ethernet's), payload, "
        f"check sequence {CHECK_BYTES} B, gap {GAP_BYTES} B\n"
    )
    row = "{:17} {:>8}" + " {:>9}" * len(PAYLOADS)
    print(row.format("format", "blocks", *(f"{size} B" for size in PAYLOADS)))
    print(
        row.format(
            "binary32", "1.000", *(f"{plain / _wire_bytes(plain, size):.3f}" for size in PAYLOADS)
        )
    )
    for name, fmt in PRESETS.items():
        packed = len(fmt.pack(fmt.encode(values)))
        framed = [f"{plain / _wire_bytes(packed, size):.3f}" for size in PAYLOADS]
        print(row.format(name, f"{plain / packed:.3f}", *framed))
    print()
    fmt = preset("bfp16")
    packed = len(fmt.pack(fmt.encode(values)))
    return plain / packed, plain / _wire_bytes(packed, payload)


# ---- Area.


def _log(component: wiring.Component, *steps: str) -> str:
    """Run these Yosys steps on a component; return the log."""
    # Not under the system's temporary folder, which WebAssembly tools cannot see.
    parent = Path("build") / "bench"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as name:
        folder = Path(name)
        (folder / "top.il").write_text(to_rtlil(component, name="top"))
        return run_yosys(["read_rtlil top.il", *steps], cwd=folder)


def _depth(component: wiring.Component) -> int:
    """Longest path between registers in two-input gates, flattened."""
    flow = ("synth -flatten -noabc -top top", "abc -g cmos2", "opt_clean", "ltp -noff")
    return int(re.findall(r"length=(\d+)", _log(component, *flow))[-1])


def _aluts(component: wiring.Component) -> int:
    """Look-up tables of Cyclone V, of which an ALM holds one or two."""
    log = _log(component, "synth_intel_alm -family cyclonev -noiopad -top top", "stat")
    last = log[log.rindex("Printing statistics") :]
    cells = re.findall(r"^\s+(\d+)\s+(?:\S+\s+)?MISTRAL_(?:ALUT|NOT)\w*$", last, re.MULTILINE)
    return sum(map(int, cells))


def _area() -> tuple[float, float, int] | None:
    """Print sizes; return those of the encoder, combinational and pipelined, and the depth."""
    if not LIBERTY_OSU018.exists():
        print("No OSU 0.18 um library; install it with: apt-get install qflow-tech-osu018")
        return None
    fmt, mx = preset("bfp16"), preset("mxint8")
    lanes, bus = LANES, 32 * LANES
    parts: dict[str, wiring.Component] = {
        "bfp16 encoder, 0 stages": BlockEncoder(fmt, lanes=lanes, stages=0),
        "bfp16 encoder, 4 stages": BlockEncoder(fmt, lanes=lanes),
        "bfp16 decoder, 0 stages": BlockDecoder(fmt, lanes=lanes, stages=0),
        "bfp16 decoder, 2 stages": BlockDecoder(fmt, lanes=lanes),
        f"packer to {bus} bit": Packer(fmt, lanes=lanes, bus_bits=bus),
        f"unpacker from {bus} bit": Unpacker(fmt, lanes=lanes, bus_bits=bus),
        "mxint8 encoder, 4 stages": BlockEncoder(mx, lanes=lanes),
        "mxint8 decoder, 2 stages": BlockDecoder(mx, lanes=lanes),
    }
    row = "{:49} {:>8} {:>6} {:>6}"
    print(
        f"{lanes} lanes from binary32; OSU 0.18 um, hierarchy kept (1 kGE = 1000 NAND2); depth: "
        f"longest path\nin two-input gates, flattened; Yosys {yosys_version()}; peers: ref=stored\n"
    )
    print(row.format("", "OSU kGE", "FF", "depth"))
    figures: list[tuple[float, int]] = []
    for title, component in parts.items():
        report = synthesize(component, name="part", target="osu018")
        kge, depth = float(report.value("part", "kge")), _depth(component)
        figures.append((kge, depth))
        print(row.format(title, f"{kge:.2f}", report.value("part", "ff"), depth))
    for peer, kge_peer, registers in (
        ("MX-for-FPGA, bfloat16 to MXINT8, 16 elements", "6.1", ""),
        ("same, pipelined", "11.9", 456),
        ("iDMA MX quantiser, binary32, 64 B per cycle", "51.9", ""),
        ("iDMA MX dequantiser", "69.4", ""),
    ):
        print(row.format(peer, kge_peer, registers, ""))
    aluts = sum(_aluts(make(fmt, lanes=8, bus_bits=256)) for make in (Compressor, Decompressor))
    print(
        f"\n8 lanes and 256 bit, compressor and decompressor with packing: {aluts} ALUTs of Cyclone"
        f"\nV, that is {aluts // 2} to {aluts} ALMs, and no memory; "
        f"published: {PUBLISHED_ALMS} ALMs and {PUBLISHED_M20KS} M20Ks of Arria 10"
    )
    print(
        f"\nbars: encoder {COMBINATIONAL_BAR:g} kGE combinational, {PIPELINED_BAR:g} kGE and depth "
        f"{DEPTH_BAR} pipelined\n"
    )
    return figures[0][0], figures[1][0], figures[1][1]
