"""No figure of the README is typed: they are those of docs/results and of the examples."""

import re
from pathlib import Path

import pytest

from bench import stored
from bench.sources import digest
from experiments.report.__main__ import main
from experiments.report.parts import PARTS, provenance
from experiments.report.readme import BLOCKS, CLAIMS, filled

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_blocks_of_the_readme_are_those_of_the_results():
    assert filled(README, ROOT) == README, "`make report` fills the README"
    assert set(re.findall(r"<!-- report:([\w-]+) -->", README)) == set(BLOCKS)


def test_figure_that_is_typed_is_noticed():
    block = next(line for line in README.splitlines() if line.startswith("| `test` |"))
    typed = README.replace(block, re.sub(r"\d", "7", block))

    assert typed != README and filled(typed, ROOT) == README


def test_unknown_block_is_refused():
    with pytest.raises(ValueError, match="unknown block report:clams; there are: quick_start"):
        filled("<!-- report:clams -->\n<!-- /report -->", ROOT)


def test_every_page_says_where_its_figures_come_from():
    pages = [path for path in (ROOT / "docs" / "results").glob("*.md") if path.stem != "README"]
    assert {"rtl", "examples"} <= {path.stem for path in pages}
    for name, page in ((path.stem, path.read_text(encoding="utf-8")) for path in pages):
        foot = page[page.index("`make report` writes this page.") :]
        for word in ("Command: `", "Configuration: ", "Tools: ", "Sources: "):
            assert word in foot
        assert not re.search(r"20[2-9]\d-\d\d-\d\d", page), f"{name}: a date"


def test_claims_name_benches_that_exist():
    assert set(CLAIMS) <= {path.stem for path in (ROOT / "bench").glob("*.py")}


def test_stored_lines_replace_those_of_the_same_bench(tmp_path):
    path = tmp_path / "results" / "bench.txt"
    stored.store(["RESULT b x=1 verdict=ok", "RESULT a y=2.5 verdict=short"], path)
    stored.store(["RESULT b x=3 verdict=ok"], path)

    assert stored.read(path) == {
        "a": {"y": "2.5", "verdict": "short"},
        "b": {"x": "3", "verdict": "ok"},
    }
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert re.fullmatch(r"RESULT a y=2.5 verdict=short  # sources [0-9a-f]{12}", first)


def test_hash_of_sources_follows_names_and_contents(tmp_path):
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim" / "a.py").write_text("x = 1\n")
    first = digest(tmp_path, ["sim"])

    (tmp_path / "sim" / "notes.md").write_text("no source")
    assert digest(tmp_path, ["sim"]) == first
    (tmp_path / "sim" / "a.py").rename(tmp_path / "sim" / "b.py")
    assert digest(tmp_path, ["sim"]) != first


def test_provenance_has_tools_and_sources():
    text = "\n".join(provenance(PARTS["rtl"], ROOT, lambda tool: "1.2"))

    assert "amaranth 1.2, pyosys 1.2" in text
    assert f"hw, gen ({digest(ROOT, ['hw', 'gen'])})" in text


def test_unknown_part_is_one_line(capsys):
    with pytest.raises(SystemExit):
        main(["rlt"])
    assert "unknown part 'rlt'; there are: rtl, cells, examples, papers" in capsys.readouterr().err
