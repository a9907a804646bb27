"""The emitted Verilog as readers and linters see it, beside the plain style of the same commit."""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from bench.result import result
from foldwire.catalog import CATALOG, build
from foldwire.console import print_table, say
from gen.table import Column, Table
from gen.verilator import find_verilator, has_verilator
from gen.verilog import emit

__all__ = ["Figures", "identifiers", "main", "measure"]

DESIGNS = (("ace", "test"), ("ace", "isca21"), ("smartnic", "100g"), ("adder", "binary32"))
TARGETS = {"lines_ratio": 0.49, "unnamed": 0, "largest_module": 700, "longest_line": 100,
           "always_per_module": 3.0, "headerless": 0, "numbers": 0, "warnings": 0,
           "slang_errors": 0}
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What was counted in one text."""

    lines: int
    comments: int
    nets: int
    unnamed: int
    modules: int
    largest_module: int
    longest_line: int
    always_blocks: int
    headerless: int
    numbers: int


def identifiers(root: Path = ROOT) -> set[str]:
    """Every word of the sources that an emitted name may be made of: of names and of strings."""
    import amaranth

    files = [*(root / "hw").rglob("*.py"), *(Path(amaranth.__file__).parent / "lib").glob("*.py")]
    words: set[str] = set()
    for file in files:
        for name in re.findall(r"[A-Za-z_]\w*", file.read_text(encoding="utf-8")):
            words.update(word for word in name.lower().split("_") if word)
    # Names of states and what stands for a clock and a reset; `unused` is the sink of a linter.
    return words | {"clk", "rst", "q", "unused"}


def _modules(text: str) -> Iterator[tuple[str, list[str], bool]]:
    """Name, lines and whether a comment stands above, of each module but the SRAM macros."""
    lines = text.splitlines()
    start = None
    for number, line in enumerate(lines):
        if match := re.match(r"module (\w+)", line):
            start, name = number, match[1]
        elif line == "endmodule" and start is not None:
            if not name.startswith("sram_"):
                yield name, lines[start : number + 1], lines[start - 1].startswith("//")
            start = None


_NOT_NETS = re.compile(r"\b(if|else|case|casez|begin|end|assign|initial|for|posedge)\b")
_DECLARED = re.compile(
    r"^\s*(?:input |output |inout )?\s*(?:logic|wire|reg|\w+_t)\b\s*(?:\[[^\]]*\]\s*)*(.*)$"
)


def _nets(lines: Sequence[str]) -> Iterator[str]:
    """Names of the ports and nets that are declared in *lines* of a module."""
    going = False
    for line in lines:
        code = line.partition("//")[0].rstrip()
        if going:
            listed = code
        elif (match := _DECLARED.match(code)) and not _NOT_NETS.search(code.partition("=")[0]):
            listed = match[1]
        else:
            continue
        wire = re.match(r"\s*wire\b", code) is not None and "=" in code
        for word in [listed.partition("=")[0]] if wire else listed.split(","):
            if name := re.match(r"\s*\\?([A-Za-z_]\w*)", word):
                yield name[1]
        going = not wire and code.endswith(",") and not re.match(r"\s*(input|output)", code)


def _known(word: str, known: set[str]) -> bool:
    """Whether *word* stands in the sources; those of AXI are put together of two."""
    axi = word[:2] in ("aw", "ar") and word[2:] in known
    return word in known or word.isdigit() or axi


def measure(text: str, known: set[str]) -> Figures:
    """Count in *text* what a reader minds; *known* are the words that names may be made of."""
    lines = text.splitlines()
    modules = list(_modules(text))
    nets = [name for _, body, _ in modules for name in _nets(body)]
    unnamed = [
        name for name in nets
        if name.startswith("_") or re.fullmatch(r"(expr|signal|port)_?\d*", name)
        or not all(_known(word, known) for word in name.lower().split("_") if word)
    ]
    return Figures(
        lines=len(lines),
        comments=sum(line.lstrip().startswith("//") for line in lines),
        nets=len(nets),
        unnamed=len(unnamed),
        modules=len(modules),
        largest_module=max(len(body) for _, body, _ in modules),
        longest_line=max(map(len, lines)),
        always_blocks=sum(bool(re.match(r"\s*always", line)) for line in lines),
        headerless=sum(not above for _, _, above in modules),
        numbers=_numbered_states(text),
    )


def _numbered_states(text: str) -> int:
    """Comparisons, cases and assignments of a machine's state with a number."""
    found = re.findall(r"\b\w*fsm_state(?:_\d+)? (?:==|!=|<=|=) \d+'[dhb]", text)
    inside = 0
    for block in re.findall(r"case[z]? \(\w*fsm_state(?:_\d+)?\)\n(.*?)endcase", text, re.S):
        inside += len(re.findall(r"^\s+\d+'[dhb]\w+(?:, \d+'[dhb]\w+)*\s*:", block, re.M))
    return len(found) + inside


def lint(path: Path, top: str) -> str:
    """What Verilator says of SystemVerilog, in either style, with all warnings and no waiver.

    It wants a file for each module, so it gets that.
    """
    with tempfile.TemporaryDirectory(prefix="lint-") as folder:
        files = apart(path.read_text(), Path(folder))
        return find_verilator().lint(files, top=top)


def apart(text: str, folder: Path) -> list[Path]:
    """Files in *folder*, one for each module of *text* and one for what stands before them."""
    parts = re.split(r"^(?=module )|(?<=^endmodule\n)", text, flags=re.M)
    files: list[Path] = []
    between = ""
    for part in parts:
        if match := re.match(r"module (\w+)", part):
            files.append(folder / f"{match[1]}.sv")
            files[-1].write_text(part)
        else:
            between += part
    files.insert(0, folder / "types.sv")
    files[0].write_text(re.sub(r"^`(ifndef|endif).*\n", "", between, flags=re.M))
    return files


_SLANG = """
import sys
from pyslang import driver
slang = driver.Driver()
slang.addStandardArgs()
good = slang.parseCommandLine(f'slang "{sys.argv[1]}"')
if good and slang.processOptions() and slang.parseAllSources():
    slang.runFullCompilation(True)
"""


def slang(path: Path) -> str:
    """What slang says, with the warnings that are on if nobody chooses others."""
    run = subprocess.run(
        [sys.executable, "-c", _SLANG, str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True,
    )
    return run.stdout


def main(argv: Sequence[str]) -> int:
    """Print the figures of both styles."""
    parser = argparse.ArgumentParser(prog="python -m bench verilog", description=__doc__)
    parser.add_argument("designs", nargs="*", help="design/preset; the four of the target if none")
    options = parser.parse_args(argv)
    chosen = [tuple(each.split("/")) for each in options.designs] or list(DESIGNS)
    for design, preset in chosen:
        if preset not in CATALOG[design].presets:
            raise SystemExit(f"bench verilog: {design} has no preset {preset!r}")
    tools = {"verilator": has_verilator(), "pyslang": find_spec("pyslang")}
    for tool, there in tools.items():
        if not there:
            say(f"{tool} is not installed: its messages are not counted")
    known = identifiers()
    columns = [Column("design"), Column("style"), *map(Column, Figures.__dataclass_fields__)]
    table = Table("Emitted Verilog", [*columns, Column("warnings"), Column("slang_errors")])
    worst: dict[str, float] = dict.fromkeys(TARGETS, 0)
    blocks = modules = 0
    with tempfile.TemporaryDirectory(prefix="verilog-") as folder:
        for design, preset in chosen:
            lines: dict[str, int] = {}
            for style in ("plain", "sv"):
                made = build(design, preset, {})
                text = emit(made.component, name=made.top, header=made.parameters, style=style).text
                path = Path(folder) / f"{made.top}.sv"
                path.write_text(text)
                counted = measure(text, known)
                lines[style] = counted.lines
                said = lint(path, made.top) if has_verilator() else ""
                warnings = len(re.findall(r"^%(?:Warning|Error)-", said, re.M))
                said = slang(path) if find_spec("pyslang") else ""
                errors = len(re.findall(r"^\S+: (?:fatal )?error: ", said, re.M))
                table.add(f"{design}/{preset}", style, *vars(counted).values(), warnings, errors)
            seen = {**vars(counted), "lines_ratio": lines["sv"] / lines["plain"],
                    "warnings": warnings, "slang_errors": errors}
            blocks, modules = blocks + counted.always_blocks, modules + counted.modules
            if (design, preset) != ("ace", "test") and len(chosen) > 1:
                del seen["lines_ratio"]  # the target is one for the smallest engine
            worst = {key: max(value, seen.get(key, 0)) for key, value in worst.items()}
    worst["always_per_module"] = blocks / modules
    print_table(table)
    good = all(worst[key] <= target for key, target in TARGETS.items())
    result("verilog", **worst, verdict="ok" if good else "short")
    return 0
