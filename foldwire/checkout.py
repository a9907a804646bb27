# SPDX-License-Identifier: Apache-2.0
"""List the benches, experiments and examples of a checkout of the repository; copy examples.

Examples are in the wheel, too, below this package.
"""

import ast
from pathlib import Path

import click

from gen.folder import writing

__all__ = ["benches", "copy_examples", "examples", "experiments"]


def benches(root: Path) -> dict[str, str]:
    """Test benches: name -> description, read from the source without importing it.

    Raises
    ------
    click.UsageError
        *root* is not a checkout.
    """
    folder = root / "tb"
    if not (folder / "runner.py").is_file():
        raise click.UsageError("test benches run from a checkout of the repository; there is none")
    packages = sorted(folder.glob("*/__init__.py"))
    return {package.parent.name.replace("_", "-"): _first_line(package) for package in packages}


def experiments(root: Path) -> dict[str, str]:
    """Experiments, modules with a ``PAPER`` to reproduce: name -> description.

    Raises
    ------
    click.UsageError
        *root* is not a checkout.
    """
    folder = root / "experiments"
    if not (folder / "__init__.py").is_file():
        raise click.UsageError("experiments run from a checkout of the repository; there is none")
    return {
        path.stem.replace("_", "-"): _first_line(path).partition(": ``")[0]
        for path in sorted(folder.glob("*.py"))
        if "\nPAPER = " in path.read_text(encoding="utf-8")
    }


def examples(root: Path) -> dict[str, str]:
    """Descriptions, sweeps and scripts to start from: path -> first sentence of the file."""
    folder = _examples(root)
    found = [each for kind in ("*.toml", "*.py") for each in sorted(folder.rglob(kind))]
    return {each.relative_to(folder).as_posix(): _first_sentence(each) for each in found}


def copy_examples(root: Path, target: Path) -> list[Path]:
    """Copy all examples into *target*; paths to Foldwire's own data become absolute.

    Raises
    ------
    ValueError
        A file of that name exists in *target*.
    """
    folder = _examples(root)
    files = [each for each in sorted(folder.rglob("*")) if each.is_file()]
    files = [each for each in files if "__pycache__" not in each.parts]
    copies = {each: target / each.relative_to(folder) for each in files}
    for copy in copies.values():
        if copy.exists():
            raise ValueError(f"{copy}: is there already; choose another folder")
    with writing(target):
        for original, copy in copies.items():
            copy.parent.mkdir(parents=True, exist_ok=True)
            data = original.read_bytes()
            if original.suffix == ".toml":
                data = data.replace(b'"../sim/', f'"{root.as_posix()}/sim/'.encode())
            copy.write_bytes(data)
    return list(copies.values())


def _examples(root: Path) -> Path:
    installed = Path(__file__).parent / "examples"
    return installed if installed.is_dir() else root / "examples"


def _first_sentence(path: Path) -> str:
    if path.suffix == ".py":
        return _first_line(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = " ".join(line.removeprefix("#").strip() for line in lines[:4] if line[:1] == "#")
    return comments.partition(" foldwire ")[0].partition(". ")[0].strip().removesuffix(".")


def _first_line(module: Path) -> str:
    doc = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return doc.partition("\n")[0]
