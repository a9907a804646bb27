"""Which tests hold which files of hw/, and on which designs a change of them is seen."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BLOCKS", "GROUPS", "Block", "block_of"]


@dataclass(frozen=True, kw_only=True)
class Block:
    """Files that are tested together.

    Members
    -------
    group:
        One of `GROUPS`.
    files:
        Paths below ``hw/``, without ``.py``; ``ace/*`` is all of a folder that no other block has.
    designs:
        Key of `bench.mutation.designs.DESIGNS`.
    tests:
        Paths below ``tests/hw/``, without ``test_`` and ``.py``, the quickest first.
    """

    group: str
    files: tuple[str, ...]
    designs: str
    tests: tuple[str, ...]

    def test_paths(self) -> list[str]:
        """The files of the tests, from the root of the repository."""
        return [str(_TESTS / Path(test).with_name(f"test_{Path(test).name}.py"))
                for test in self.tests]


_TESTS = Path("tests", "hw")

_BFP = ("bfp/bfp_codec", "bfp/bfp_streams", "bfp/bfp_proofs")
_ACE_ENGINE = (
    "ace/ace_rings", "ace/ace_any_order", "ace/ace_completions", "ace/ace_bad_input",
    "ace/ace_abort", "ace/ace_counters", "ace/ace_traffic", "ace/ace_idle",
)
_NIC_ENGINE = (
    "smartnic/nic_faults", "smartnic/nic_errors", "smartnic/nic_aborts", "smartnic/nic_rings",
)

BLOCKS: Mapping[str, Block] = {
    "adder": Block(
        group="fp+bfp",
        files=("fp/adder", "fp/steps", "fp/bits"),
        designs="adder",
        tests=("fp/adder_against_softfloat", "fp/minmax", "fp/reduce_alu", *_BFP),
    ),
    "alu": Block(
        group="fp+bfp",
        files=("fp/alu", "fp/minmax"),
        designs="alu",
        tests=("fp/minmax", "fp/reduce_alu"),
    ),
    "codec": Block(
        group="fp+bfp",
        files=(
            "bfp/codec", "bfp/decoder", "bfp/encoder", "bfp/generator", "bfp/pipeline", "bfp/steps",
        ),
        designs="codec",
        tests=_BFP,
    ),
    "gearbox": Block(
        group="fp+bfp",
        files=("bfp/gearbox",),
        designs="gearbox",
        tests=("bfp/bfp_gearbox_proofs", "bfp/bfp_streams"),
    ),
    "packer": Block(
        group="link+common",
        files=("link/packer",),
        designs="link",
        tests=("link/link_packer", "link/link_loopback", "link/link_proofs"),
    ),
    "link": Block(
        group="link+common",
        files=("link/packet", "link/receive", "link/transmit"),
        designs="link",
        tests=(
            "link/link_packets", "link/link_loopback", "link/link_damage", "link/link_proofs",
        ),
    ),
    "arbiter": Block(
        group="link+common",
        files=("common/arbiter",),
        designs="arbiter",
        tests=("common/arbiter", "common/arbiter_proofs"),
    ),
    "memory bus": Block(
        group="link+common",
        files=("common/axi", "common/axi_read", "common/axi_write"),
        designs="memory bus",
        tests=("common/axi_dma", "common/axi_proofs", "common/dma_proofs"),
    ),
    "queues": Block(
        group="link+common",
        files=("common/fifo", "common/skid"),
        designs="queues",
        tests=("common/stream_fifo", "common/stream_proofs"),
    ),
    "registers": Block(
        group="link+common",
        files=("common/registers", "common/engine_registers", "common/idle"),
        designs="registers",
        tests=("common/registers", "common/engine_registers", "common/register_proofs"),
    ),
    "sram": Block(
        group="link+common", files=("common/sram",), designs="sram", tests=("common/sram",)
    ),
    "ace parts": Block(
        group="ace",
        files=(
            "ace/alu_pool", "ace/command_table", "ace/forward_gate", "ace/ready_table",
            "ace/reduce_path", "ace/send_unit", "ace/sram",
        ),
        designs="ace",
        tests=(
            "ace/ace_parts", "ace_formal/unit_proofs", "ace_formal/sharing_proofs",
            "ace_formal/fsm_proofs", *_ACE_ENGINE,
        ),
    ),
    "ace fsm": Block(
        group="ace",
        files=(
            "ace/contexts", "ace/lookup", "ace/packet_lookup", "ace/packet_outcome",
            "ace/phase_fsm", "ace/receive_unit", "ace/send_generator",
        ),
        designs="ace",
        tests=("ace_formal/unit_proofs", "ace_formal/fsm_proofs", "ace/ace_parts", *_ACE_ENGINE),
    ),
    "ace engine": Block(
        group="ace",
        files=("ace/*",),
        designs="ace",
        tests=("ace/ace_parts", *_ACE_ENGINE),
    ),
    "nic control": Block(
        group="smartnic",
        files=("smartnic/*",),
        designs="smartnic",
        tests=("smartnic/nic_units", "smartnic/nic_abort_parts", *_NIC_ENGINE,
               "smartnic/nic_receive"),
    ),
    "nic network": Block(
        group="smartnic",
        files=("smartnic/receive", "smartnic/transmit", "smartnic/wire_codec"),
        designs="smartnic",
        tests=("smartnic/nic_receive", *_NIC_ENGINE, "smartnic/nic_units", "smartnic/nic_proofs"),
    ),
    "nic memory": Block(
        group="smartnic",
        files=(
            "smartnic/fetch", "smartnic/store", "smartnic/gather_path", "smartnic/reduce_path",
        ),
        designs="smartnic",
        tests=(*_NIC_ENGINE, "smartnic/nic_units", "smartnic/nic_proofs"),
    ),
}
"""All files of hw/ that make hardware, by block."""

GROUPS = ("fp+bfp", "link+common", "ace", "smartnic")
"""In the order in which they are run."""


def block_of(path: str) -> Block | None:
    """The block of ``hw/fp/steps.py``; None if the file is in none."""
    name = path.removeprefix("hw/").removesuffix(".py")
    for wanted in (name, f"{name.rpartition('/')[0]}/*"):
        for block in BLOCKS.values():
            if wanted in block.files:
                return block
    return None
