"""Unbounded proofs about components: Yosys translates, ABC's reachability engine decides.

A harness is a component with an output `bad` that must stay 0 for ever, whatever its inputs do. All
inputs are free in every cycle, the reset included. Where a property holds only for inputs that
keep a rule, the harness itself remembers that the rule was broken and keeps `bad` low from then on.
"""

import re
import subprocess
from importlib import metadata
from pathlib import Path

from amaranth.lib import wiring

from gen.rtlil import MacroPlatform, to_rtlil
from gen.yosys import run_yosys

__all__ = ["assert_moore", "holds"]


def holds(
    harness: wiring.Component,
    folder: Path,
    *,
    macros: bool = False,
    twins: bool = False,
    cycles: int | None = None,
    timeout: int = 120,
) -> bool:
    """Whether `bad` can never be 1; raises if ABC finds out neither way within *timeout* s.

    With *cycles* only that many cycles from reset are looked at, under all inputs.

    With *macros*, SRAM is what the behavioural body of its macro says. With *twins*, registers that
    are always equal are merged first (by induction), which decides harnesses that compare two
    copies of a component.
    """
    platform = MacroPlatform() if macros else None
    (folder / "harness.il").write_text(to_rtlil(harness, name="harness", platform=platform))
    (folder / "macros.v").write_text("".join(platform.sram_macros.values()) if platform else "")
    run_yosys(
        [
            "read_verilog -nosynthesis macros.v",
            "read_rtlil harness.il",
            "hierarchy -check -top harness",
            "proc",
            "flatten",
            "memory -nomap",
            "memory_map",
            "opt -full",
            "delete o:* o:bad %d",
            "setattr -mod -unset keep",
            "opt_clean -purge",
            "techmap",
            "opt -full",
            "dfflegalize -cell $_DFF_P_ 01",
            "aigmap",
            "opt_clean -purge",
            "write_aiger -zinit harness.aig",
        ],
        cwd=folder,
    )
    abc = Path(str(metadata.distribution("pyosys").locate_file("pyosys"))) / "yosys-abc"
    # `pdr` does not judge a network that merging has left without registers; `dprove` does.
    merge, rest = ("scorr;", "; dprove") if twins else ("", "")
    search = f"pdr -T {timeout} {rest}" if cycles is None else f"bmc3 -F {cycles} -T {timeout}"
    log = subprocess.run(
        [str(abc), "-c", f"read_aiger harness.aig; strash; {merge} {search}"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout + 60,
        check=True,
    ).stdout
    if re.search(r"was asserted in frame|Networks are not equivalent|Output 0 .*asserted", log):
        return False
    if re.search(r"Property proved|^UNSATISFIABLE", log, re.MULTILINE):
        return True
    if cycles is not None and re.search(rf"No output asserted in {cycles} frames", log):
        return True
    raise RuntimeError(f"neither proved nor refuted:\n{log}")


def assert_moore(component: wiring.Component, folder: Path, *, but: str = "") -> None:
    """Fail if an output depends on an input combinationally.

    *but* selects outputs that may, as a Yosys selection such as ``"o:i_ready"``.
    """
    (folder / "design.il").write_text(to_rtlil(component, name="design"))
    run_yosys(
        [
            "read_rtlil design.il",
            "hierarchy -check -top design",
            "proc",
            "flatten",
            "memory",
            "opt -full",
            "techmap",
            "opt -full",
            "dfflegalize -cell $_DFF_P_ 01",
            f"select -set judged o:* {but} %d" if but else "select -set judged o:*",
            "select -assert-min 1 @judged",
            "select -assert-none @judged %cie*:-$_DFF_P_ i:* %i",
        ],
        cwd=folder,
    )
