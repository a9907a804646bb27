"""What a checkout of the repository has beside the installed packages: benches, experiments."""

import ast
from pathlib import Path

import click

__all__ = ["benches", "experiments"]


def benches(root: Path) -> dict[str, str]:
    """Test benches: name -> what it is, read from the source without importing it.

    Raises
    ------
    click.UsageError
        *root* is not a checkout.
    """
    folder = root / "tb"
    if not (folder / "runner.py").is_file():
        raise click.UsageError("test benches run from a checkout of the repository; there is none")
    packages = sorted(folder.glob("*/__init__.py"))
    return {package.parent.name: _first_line(package) for package in packages}


def experiments(root: Path) -> dict[str, str]:
    """Experiments, modules with a function ``main``: name -> what it is.

    Raises
    ------
    click.UsageError
        *root* is not a checkout.
    """
    folder = root / "experiments"
    if not (folder / "__init__.py").is_file():
        raise click.UsageError("experiments run from a checkout of the repository; there is none")
    return {
        path.stem.replace("_", "-"): _first_line(path)
        for path in sorted(folder.glob("*.py"))
        if "\ndef main(" in path.read_text(encoding="utf-8")
    }


def _first_line(module: Path) -> str:
    doc = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return doc.partition("\n")[0]
