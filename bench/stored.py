# SPDX-License-Identifier: Apache-2.0
"""Stored result lines: what ``python -m bench NAME --store`` leaves for the documents."""

from pathlib import Path

from bench.sources import digest

__all__ = ["STORED", "read", "store"]

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "docs" / "results" / "bench.txt"


def store(lines: list[str], path: Path = STORED) -> None:
    """Put *lines*, as `bench.result` printed them, in the place of earlier ones of the same names.

    Each is followed by a hash of the sources that were measured.
    """
    kept = {line.split()[1]: line for line in _lines(path)}
    sources = digest(ROOT)
    kept |= {line.split()[1]: f"{line}  # sources {sources}" for line in lines}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{kept[name]}\n" for name in sorted(kept)), encoding="utf-8")


def read(path: Path = STORED) -> dict[str, dict[str, str]]:
    """Name of a bench -> the keys and values of its stored line; numbers as they were printed."""
    return {
        name: dict(word.split("=", 1) for word in words)
        for _, name, *words in (line.partition("  # ")[0].split() for line in _lines(path))
    }


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
