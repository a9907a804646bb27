# SPDX-License-Identifier: Apache-2.0
"""``python -m bench``: list the benchmarks; ``python -m bench NAME [options]``: run one.

With ``--store`` the result line is kept in ``docs/results/bench.txt``, for the documents.
"""

import ast
import importlib
import sys
from pathlib import Path

from bench.result import printed
from bench.stored import store

__all__ = ["main"]


def _benches() -> dict[str, str]:
    """Modules with a function ``main``: name -> first line, without importing anything."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(each, ast.FunctionDef) and each.name == "main" for each in tree.body):
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def main(argv: list[str]) -> int:
    benches = _benches()
    if not argv or argv[0] in ("-h", "--help"):
        print("usage: python -m bench NAME [--store] [options]      (NAME may be 'all')\n")
        for name, doc in benches.items():
            print(f"  {name:12} {doc}")
        return 0
    name, options = argv[0], [each for each in argv[1:] if each != "--store"]
    keep = len(options) < len(argv) - 1
    if name == "all":
        failed = []
        for each in benches:
            print(f"\n=== {each}", flush=True)
            if _run(each, [], keep=keep) != 0:
                failed.append(each)
        return 1 if failed else 0
    if name not in benches:
        known = ", ".join(benches)
        print(f"bench: unknown benchmark {name!r}; there are: {known}", file=sys.stderr)
        return 2
    return _run(name, options, keep=keep)


def _run(name: str, options: list[str], *, keep: bool) -> int:
    printed.clear()
    code: int = importlib.import_module(f"bench.{name}").main(options)
    if keep and code == 0:
        store(printed)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
