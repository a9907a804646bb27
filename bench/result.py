# SPDX-License-Identifier: Apache-2.0
"""The last line of every benchmark: plain numbers that a script can read."""

from numbers import Integral, Real

__all__ = ["VERDICTS", "format_result", "printed", "result"]

VERDICTS = ("ok", "short", "noisy")
"""Targets are met; one is missed; undecided, as other processes took the CPUs while a speed was
measured."""

printed: list[str] = []
"""The result lines of this process, as they were printed."""


def format_result(name: str, *, verdict: str, **values: object) -> str:
    """``RESULT name key=value ... verdict=ok|short|noisy``; values may not contain blanks."""
    if verdict not in VERDICTS:
        raise ValueError(f"verdict must be one of {', '.join(VERDICTS)}, not {verdict!r}")
    words = [f"{key}={_plain(key, value)}" for key, value in values.items()]
    return " ".join(["RESULT", name, *words, f"verdict={verdict}"])


def result(name: str, *, verdict: str, **values: object) -> None:
    """Print the result line; call it last."""
    printed.append(format_result(name, verdict=verdict, **values))
    print(printed[-1], flush=True)


def _plain(key: str, value: object) -> str:
    if isinstance(value, bool) or isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return f"{float(value):.6g}"
    text = str(value)
    if not text or any(character.isspace() for character in text):
        raise ValueError(f"value of {key} must be one word, not {text!r}")
    return text
