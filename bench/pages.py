# SPDX-License-Identifier: Apache-2.0
"""Pages of results in a browser: every example, sweeps, a comparison, a run of 10^6 spans.

Headless Chromium opens each at 1280 and 390 px, light and dark. A page fails for each: a message on
its console, a request, text under 11 px, text over text, a contrast under 4.5, a page that is wider
than the window, a timeline or table that the keyboard does not work, more than 2 MB. Without
Chromium or `playwright` nothing is measured, and one line says so.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench._page_checks import CHECKS
from bench.options import bench_parser
from bench.repeat import examples, first_run
from bench.result import result
from foldwire.version import __version__
from sim.results.store import load_run
from sim.results.view.compare import write_comparison
from sim.run import run
from sim.sweep.engine import run_sweep
from sim.sweep.report import write_outcome
from sim.sweep.spec import parse_document
from sim.sweep.training import RUNNER

__all__ = ["browser", "failures_of", "main", "missing"]

ROOT = Path(__file__).resolve().parent.parent
WIDTHS, SCHEMES = (1280, 390), ("light", "dark")
MOST_KB = 2048
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main(argv: Sequence[str]) -> int:
    """``--only NAME``: pages whose name contains it; ``--folder``: keep the pages there."""
    parser = bench_parser("pages", __doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="pages whose name has it")
    parser.add_argument("--folder", type=Path, help="keep the pages in this folder")
    options = parser.parse_args(argv)
    if lacks := missing():
        print(f"skipped, not passed: pages need {lacks}")
        result("pages", pages=0, failures=0, worst_kb=0, verdict="short")
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        pages = list(_pages(options.folder or Path(temporary), options.only))
        failures, worst_kb = 0, 0.0
        with browser() as opened:
            for page in pages:
                size_kb = page.stat().st_size / 1024
                worst_kb = max(worst_kb, size_kb)
                found = failures_of(opened, page)
                failures += len(found)
                print(f"{page.parent.name}: {size_kb:.0f} KB, {len(found)} failures", flush=True)
                for each in found:
                    print(f"  {each}")
    verdict = "ok" if pages and not failures and worst_kb <= MOST_KB else "short"
    result("pages", pages=len(pages), failures=failures, worst_kb=worst_kb, verdict=verdict)
    return 0


def missing() -> str:
    """Programs and modules that are not there, in words; empty if all are."""
    found = [] if any(map(shutil.which, BROWSERS)) else ["Chromium (apt-get install chromium)"]
    if find_spec("playwright") is None:
        found.append("playwright (pip install playwright)")
    return " and ".join(found)


@contextmanager
def browser() -> Iterator[Any]:
    """A headless browser."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as made:
        # A container has no rights to make sandboxes; pages are our own.
        opened = made.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


def failures_of(
    opened: Any, page: Path, *, widths: Sequence[int] = WIDTHS, schemes: Sequence[str] = SCHEMES
) -> list[str]:
    """Failures of a page at each width and in each scheme, one line each."""
    found = []
    if (size_kb := page.stat().st_size / 1024) > MOST_KB:
        found.append(f"{size_kb:.0f} KB")
    for width in widths:
        for scheme in schemes:
            tab = opened.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            said: list[str] = []
            tab.on("console", lambda message, said=said: said.append(f"console: {message.text}"))
            tab.on("pageerror", lambda error, said=said: said.append(f"error: {error}"))
            tab.on("request", lambda request, said=said: said.extend(_outside(request.url, page)))
            tab.goto(page.resolve().as_uri())
            tab.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
            tab.wait_for_timeout(50)
            said += [each for check in CHECKS for each in check(tab)]
            found += [f"{width} px, {scheme}: {each}" for each in said]
            tab.close()
    return found


def _outside(url: str, page: Path) -> list[str]:
    allowed = url.startswith("data:") or url == page.resolve().as_uri()
    return [] if allowed else [f"asks for {url}"]


def _pages(folder: Path, only: str) -> Iterator[Path]:
    """Write all pages: of examples, of sweeps, of a comparison, and of a long trace."""
    for path in examples(ROOT / "examples"):
        if only in path.stem:
            first_run(path).save(folder / path.stem, figures=False)
            yield folder / path.stem / "index.html"
    if only in "sweep":
        topology = {"kind": "torus", "shape": [4, 4]}
        workload = {"collective": "all_reduce", "size_bytes": 1 << 20}
        description = {
            "base": {"topology": topology, "workload": workload, "run": {"passes": 1}},
            "grid": {
                "endpoint.kind": ["ideal", "ace", "baseline_comm_opt"],
                "workload.size_bytes": {"from": 4096, "to": 1 << 24, "factor": 8},
                "topology.latency_s": [1e-7, 1e-6, 1e-5],
            },
        }
        spec = parse_document(description)
        outcome = run_sweep(spec, folder / "sweep", runner=RUNNER, version=__version__)
        write_outcome(outcome, spec, folder / "sweep")
        yield folder / "sweep" / "index.html"
    if only in "comparison":
        base = ROOT / "examples" / "training_torus.toml"
        for kind in ("ace", "ideal", "baseline_comp_opt"):
            run(base, endpoint=kind).save(folder / f"training-{kind}", figures=False)
        loaded = [load_run(each) for each in sorted(folder.glob("training-*"))]
        (folder / "comparison").mkdir(parents=True, exist_ok=True)
        write_comparison(folder / "comparison" / "index.html", loaded)
        yield folder / "comparison" / "index.html"
    if only in "million":
        torus = {"kind": "torus", "shape": [4, 4, 4]}
        workload = {"collective": "all_reduce", "size_bytes": 1 << 26}
        done = run({
            "topology": torus, "workload": workload, "run": {"passes": 1, "fold": "off"}
        }, trace=True)
        done.save(folder / "million", figures=False)
        yield folder / "million" / "index.html"
