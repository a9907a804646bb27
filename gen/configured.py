# SPDX-License-Identifier: Apache-2.0
"""Load models of the project's own engines without elaborating them again.

To find a design in the cache of models takes its RTLIL, which takes Amaranth as long to make as
all the rest. An engine of ours, however, is determined by its configuration and the sources of
`hw` and `gen`, so the name of its model is cached under the hash of these.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from amaranth.lib import wiring

from gen.cache import intact, kept
from gen.compile import CompiledModel, compile_model, conditions

__all__ = ["compile_configured", "sources_hash"]

_LOADED_S = time.time()
_ROOT = Path(__file__).resolve().parent.parent


def compile_configured(
    component: Callable[[Any], wiring.Component],
    config: Any,
    *,
    name: str,
    cache_dir: Path | None = None,
    generator: str | None = None,
    lanes: int = 1,
) -> CompiledModel:
    """`compile_model(component(config))`, faster the second time.

    Parameters
    ----------
    component:
        Makes the component from *config*. Its class and its parts must be in `hw` or in the file
        of *component*: changes in other files would go unnoticed.
    config:
        Configuration whose `repr` states it completely.
    name, cache_dir, generator, lanes:
        See `gen.compile.compile_model`.

    Raises
    ------
    ValueError
        The component's class is in another file; otherwise as `compile_model`.
    """
    made: list[CompiledModel] = []

    def compiled() -> CompiledModel:
        if not made:
            design = component(config)
            file = inspect.getsourcefile(type(design)) or ""
            if Path(file) not in _sources(component):
                raise ValueError(f"{type(design).__name__} is neither in hw nor in the file of "
                                 f"{component.__qualname__}, but in {file}")
            made.append(
                compile_model(design, name=name, cache_dir=cache_dir, generator=generator,
                              lanes=lanes)
            )
        return made[0]

    key = _key(component, config, generator, lanes)
    if key is None:
        return compiled()

    def point(target: Path) -> None:
        target.write_text(compiled().path.name, encoding="utf-8")

    pointer = kept(
        f"{name}-{key}.name",
        point,
        doing=f"elaborating {name} (seconds)",
        folder=cache_dir,
    )
    path = pointer.parent / pointer.read_text(encoding="utf-8")
    if made or not intact(path):
        return compiled()
    model = CompiledModel(path)
    # Where CXXRTL had to replace the native generator, that is announced every time.
    return model if model.generator == conditions(generator)[0] else compiled()


def _sources(component: Callable[[Any], wiring.Component]) -> Iterator[Path]:
    for package in ("hw", "gen"):
        yield from sorted((_ROOT / package).rglob("*.py"))
    yield from sorted((_ROOT / "gen").rglob("*.h"))
    yield from sorted((_ROOT / "gen").rglob("*.cc"))
    yield Path(inspect.getsourcefile(component) or "")


def _key(
    component: Callable[[Any], wiring.Component], config: Any, generator: str | None, lanes: int
) -> str | None:
    """The hash; None if a source has changed since it was loaded, or cannot be read."""
    parts = (component.__module__, component.__qualname__, config, conditions(generator, lanes))
    return _hashed(parts, _sources(component))


def sources_hash(kind: type, parts: object) -> str | None:
    """Hash of *parts*, as their ``repr`` says them, and of the sources that make hardware.

    None if the class *kind* is none of these sources, or if one of them has changed since it was
    loaded.
    """
    try:
        *ours, own = _sources(kind)
    except (OSError, TypeError):  # a class that was typed in
        return None
    if own not in ours:
        return None
    return _hashed((kind.__module__, kind.__qualname__, parts), ours)


def _hashed(parts: object, sources: Iterable[Path]) -> str | None:
    versions = [metadata.version(each) for each in ("amaranth", "pyosys")]
    key = hashlib.sha256(repr((parts, versions, sys.version)).encode())
    try:
        for path in sources:
            if path.stat().st_mtime > _LOADED_S:
                return None
            key.update(hashlib.sha256(path.read_bytes()).digest())
    except OSError:
        return None
    return key.hexdigest()[:24]
