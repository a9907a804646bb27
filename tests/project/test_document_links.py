# SPDX-License-Identifier: Apache-2.0
"""Links inside the documents lead to files and headings that exist; every page can be reached."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")


def documents(root):
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=root, capture_output=True,
        text=True, check=True,
    )
    return [path for name in listed.stdout.split() if (path := root / name).exists()]


def prose(path):
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def links(path):
    text = CODE.sub("", prose(path))
    found = (each[0] or each[1] for each in LINK.findall(text))
    return [each for each in found if not re.match(r"[a-z]+:", each)]


def anchors(path):
    """The names that headings have on a page, as GitHub makes them."""
    names = []
    for heading in re.findall(r"^#{1,6} +(.+?) *$", prose(path), re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        again = names.count(name)
        names.append(name if not again else f"{name}-{again}")
    return set(names)


def broken(root):
    wrong = []
    for path in documents(root):
        for link in links(path):
            file, _, name = link.partition("#")
            goal = (path.parent / file).resolve() if file else path
            if not goal.exists():
                wrong.append(f"{path.relative_to(root)}: no file {file}")
            elif name and goal.suffix == ".md" and name not in anchors(goal):
                wrong.append(f"{path.relative_to(root)}: no heading {link}")
    return wrong


def test_links_of_all_documents_lead_somewhere():
    assert len(documents(ROOT)) > 100
    assert not broken(ROOT)


def test_every_page_can_be_reached_from_the_index():
    seen, waiting = set(), [ROOT / "docs" / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        waiting += [(page.parent / link.partition("#")[0]).resolve() for link in links(page)]

    assert not [page for page in documents(ROOT / "docs") if page not in seen]


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("[a](b.md)", "a.md: no file b.md"),
        ("[a](#nowhere)", "a.md: no heading #nowhere"),
        ("[a](c.md#two)", "a.md: no heading c.md#two"),
        ('<img src="x.svg">', "a.md: no file x.svg"),
        ("[a](c.md#a-b_c-1) [a](#one) [x](https://y.invalid) `[a](b.md)`", None),
        ("```text\n[a](b.md)\n```", None),
    ],
)
def test_a_planted_link_is_noticed(planted, said, tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "a.md").write_text(f"# One\n\n{planted}\n")
    (tmp_path / "c.md").write_text("# A b_c\n\n## `A, b_c`\n\n```text\n# two\n```\n")

    assert broken(tmp_path) == ([] if said is None else [said])
