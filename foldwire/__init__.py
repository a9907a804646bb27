# SPDX-License-Identifier: Apache-2.0
"""Foldwire: collective-communication hardware for distributed training.

``import foldwire as fw`` is the public interface; everything here is re-exported from ``hw`` (the
hardware), ``gen`` (Verilog, compiled models, synthesis) and ``sim`` (systems and workloads).
``__init__.pyi`` lists the names; each is imported on first use, so that simulations do not load the
hardware description language, and help appears at once.
"""

from foldwire.version import __version__ as __version__

_names: dict[str, tuple[str, str]] = {}


def _check_that_nothing_hides_ours() -> None:
    """Check that nothing hides our packages, such as a script's own ``sim.py``.

    Raises
    ------
    ImportError
        A file does; the text names it.
    """
    import os
    import sys
    from importlib.machinery import PathFinder

    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for name in ("hw", "gen", "sim"):
        loaded = sys.modules.get(name)
        found = PathFinder.find_spec(name) if loaded is None else loaded.__spec__
        if found is None or found.origin is None:
            continue
        ours = os.path.join(root, name, "__init__.py")
        if os.path.realpath(found.origin) != os.path.realpath(ours):
            raise ImportError(
                f"{found.origin} hides Foldwire's package {name}; rename it, or run from another "
                "folder"
            )


_check_that_nothing_hides_ours()


def _listed() -> dict[str, tuple[str, str]]:
    """Names in the stub -> module, and name in that module."""
    if not _names:
        import ast
        from pathlib import Path

        stub = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
        for node in ast.parse(stub).body:
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                for each in node.names:
                    _names[each.asname or each.name] = node.module, each.name
    return _names


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_listed())
    if name.startswith("_") or name not in _listed():
        raise AttributeError(f"module 'foldwire' has no attribute {name!r}")
    from importlib import import_module

    module, original = _listed()[name]
    value = globals()[name] = getattr(import_module(module), original)
    return value


def __dir__() -> list[str]:
    return sorted(_listed())
