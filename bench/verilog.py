# SPDX-License-Identifier: Apache-2.0
"""The emitted Verilog of every preset as readers and linters see it.

The smallest engine is counted in the plain style of the same commit, too. A signal is wrong if its
name is not that of the source; `bench/_names.py` explains the check. Counts of the same sources are
cached until a run has printed all of them.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench._kept import Kept
from bench._names import checked, seen_names
from bench.result import result
from bench.sources import digest
from foldwire.catalog import CATALOG, build
from foldwire.console import print_table, say
from gen.table import Column, Table
from gen.verilator import find_verilator, has_verilator
from gen.verilog import emit

__all__ = ["Figures", "identifiers", "main", "measure", "numbered"]

DESIGNS = tuple((name, preset) for name, entry in CATALOG.items() for preset in entry.presets)
OWN = ("hw", "gen", "foldwire", "bench/verilog.py", "bench/_names.py")
"""Sources of the figures."""
SMALLEST = ("ace", "test")
TARGETS = {"lines_ratio": 0.49, "unnamed": 0, "largest_module": 700, "longest_line": 100,
           "always_per_module": 3.0, "headerless": 0, "numbers": 0, "warnings": 0,
           "slang_errors": 0, "wrong_names": 0, "numbered_pct": 2.0}
LINES = {"lines_16_port": ("switch", "16-port", 7000),
         "lines_6_link": ("switch-dma", "6-link", 6500)}
ROOT = Path(__file__).resolve().parent.parent
_MADE_UP = re.compile(r"(expr|signal)_?\d*|port_?\d+")
"""Names that Amaranth and Yosys make up. `port` without a number is one of the source."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Counts of one text."""

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
    """Words of names and strings in the sources, of which emitted names may consist."""
    import amaranth

    files = [*(root / "hw").rglob("*.py"), *(Path(amaranth.__file__).parent / "lib").glob("*.py")]
    words: set[str] = set()
    for file in files:
        for name in re.findall(r"[A-Za-z_]\w*", file.read_text(encoding="utf-8")):
            words.update(word for word in name.lower().split("_") if word)
    # Names of states, clocks and resets; `unused` is the sink for a linter.
    return words | {"clk", "rst", "q", "unused"}


def _modules(text: str) -> Iterator[tuple[str, list[str], bool]]:
    """Yield name, lines, and True for a comment above, of each module but the SRAM macros."""
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
    r"^\s*(?:input +wire |input |output |inout )?\s*(?:logic|wire|reg|\w+_[te])\b\s*"
    r"(?:\[[^\]]*\]\s*)*(.*)$"
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
    """True if *word* occurs in the sources; AXI names (aw..., ar...) consist of two words."""
    axi = word[:2] in ("aw", "ar") and word[2:] in known
    return word in known or word.isdigit() or axi


def measure(text: str, known: set[str]) -> Figures:
    """Count obstacles for readers in *text*; names may consist of the words *known*."""
    lines = text.splitlines()
    modules = list(_modules(text))
    nets = [name for _, body, _ in modules for name in _nets(body)]
    unnamed = [
        name for name in nets
        if name.startswith("_") or _MADE_UP.fullmatch(name)
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
    """Number of comparisons, cases and assignments of an FSM state with a bare number."""
    found = re.findall(r"\b\w*fsm_state(?:_\d+)? (?:==|!=|<=|=) \d+'[dhb]", text)
    inside = 0
    for block in re.findall(r"case[z]? \(\w*fsm_state(?:_\d+)?\)\n(.*?)endcase", text, re.S):
        inside += len(re.findall(r"^\s+\d+'[dhb]\w+(?:, \d+'[dhb]\w+)*\s*:", block, re.M))
    return len(found) + inside


def lint(path: Path, top: str) -> str:
    """Messages of Verilator on a text, in either style, with all warnings and no waiver.

    It expects a file for each module, so the text is split.
    """
    with tempfile.TemporaryDirectory(prefix="lint-") as folder:
        files = apart(path.read_text(), Path(folder))
        return find_verilator().lint(files, top=top)


def apart(text: str, folder: Path) -> list[Path]:
    """Write files to *folder*, one for each module of *text* and one for the rest."""
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
    """Messages of slang on a text, with its default warnings."""
    run = subprocess.run(
        [sys.executable, "-c", _SLANG, str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True,
    )
    return run.stdout


def numbered(text: str) -> tuple[int, int]:
    """Number of names with a number to keep them unique in a module, and of all names."""
    few = total = 0
    for _, body, _ in _modules(text):
        names = set(_nets(body))
        total += len(names)
        found = (re.fullmatch(r"(.+)_(\d+)", name) for name in names)
        few += sum(1 for match in found if match and int(match[2]) > 1 and match[1] in names)
    return few, total


def count(design: str, preset: str, style: str) -> dict[str, Any]:
    """The figures of one text, with the findings of the linters."""
    with seen_names() as seen:
        made = build(design, preset, {})
        emitted = emit(
            made.component, name=made.top, header=made.parameters, style=style,
            command=f"foldwire gen {design} --preset {preset}",
        )
    figures = asdict(measure(emitted.text, identifiers()))
    if style == "sv":
        result = checked(seen, emitted.names)
        figures["compared"], figures["wrong_names"] = result.compared, len(result.wrong)
        figures["numbered"], figures["names"] = numbered(emitted.text)
        for wrong in result.wrong:
            say(f"{design}/{preset}: {wrong}")
    with tempfile.TemporaryDirectory(prefix="verilog-") as folder:
        path = Path(folder) / f"{made.top}.sv"
        path.write_text(emitted.text)
        said = lint(path, made.top) if has_verilator() else ""
        figures["warnings"] = len(re.findall(r"^%(?:Warning|Error)-", said, re.M))
        said = slang(path) if find_spec("pyslang") else ""
        figures["slang_errors"] = len(re.findall(r"^\S+: (?:fatal )?error: ", said, re.M))
    return figures


def main(argv: Sequence[str]) -> int:
    """Print the figures of every preset, the worst ones last."""
    parser = argparse.ArgumentParser(
        prog="python -m bench verilog", description=__doc__.splitlines()[0]
    )
    parser.add_argument("designs", nargs="*", help="design/preset; every one if none")
    options = parser.parse_args(argv)
    named = {"/".join(each): each for each in DESIGNS}
    for each in options.designs:
        if each not in named:
            parser.error(f"designs must be of {', '.join(named)}, not {each!r}")
    chosen = [named[each] for each in options.designs] or list(DESIGNS)
    tools = {"verilator": has_verilator(), "pyslang": find_spec("pyslang")}
    for tool, there in tools.items():
        if not there:
            say(f"{tool} is not installed: its messages are not counted")
    about = digest(ROOT, OWN), [name for name, there in tools.items() if there]
    kept = Kept("verilog", repr(about))
    counted: dict[tuple[str, str, str], dict[str, Any]] = {}
    for design, preset in chosen:
        for style in ("plain", "sv") if (design, preset) == SMALLEST else ("sv",):
            part = f"{design}/{preset} {style}"
            figures = kept.get(part)
            if figures is None:
                figures = count(design, preset, style)
                kept.put(part, figures)
            counted[design, preset, style] = figures
    columns = list(dict.fromkeys(key for each in counted.values() for key in each))
    table = Table("Emitted Verilog", [Column("design"), Column("style"), *map(Column, columns)])
    for (design, preset, style), figures in counted.items():
        table.add(f"{design}/{preset}", style, *(figures.get(key) for key in columns))
    print_table(table)
    texts = {(design, preset): each for (design, preset, style), each in counted.items()
             if style == "sv"}
    figures = _worst(texts, counted)
    good = all(figures[key] <= target for key, target in TARGETS.items() if key in figures)
    good &= all(figures.get(key, 0) <= most for key, (_, _, most) in LINES.items())
    result("verilog", presets=len(texts), **figures, verdict="ok" if good else "short")
    kept.forget()
    return 0


def _worst(
    texts: Mapping[tuple[str, str], dict[str, Any]],
    counted: Mapping[tuple[str, str, str], dict[str, Any]],
) -> dict[str, float]:
    found: dict[str, float] = {}
    plain = counted.get((*SMALLEST, "plain"))
    if plain is not None:
        found["lines_ratio"] = texts[SMALLEST]["lines"] / plain["lines"]
    for key in ("unnamed", "largest_module", "longest_line"):
        found[key] = max(each[key] for each in texts.values())
    found["always_per_module"] = (
        sum(each["always_blocks"] for each in texts.values())
        / sum(each["modules"] for each in texts.values())
    )
    for key in ("headerless", "numbers", "warnings", "slang_errors", "wrong_names"):
        found[key] = sum(each[key] for each in texts.values())
    found["numbered_pct"] = (
        100 * sum(each["numbered"] for each in texts.values())
        / sum(each["names"] for each in texts.values())
    )
    for key, (design, preset, _) in LINES.items():
        if (design, preset) in texts:
            found[key] = texts[design, preset]["lines"]
    return found
