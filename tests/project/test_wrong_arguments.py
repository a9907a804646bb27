# SPDX-License-Identifier: Apache-2.0
"""Every parameter of everything public, with arguments that are wrong: one line that names it.

Nothing raw from within, nothing that does not end, and nothing accepted that has no meaning: what
is right here and there is listed.
"""

import enum
import signal
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

import foldwire as fw
from gen.arguments import typed
from tests.project.wrong_arguments import VALUES, Call, calls, parameters_of

MOST_SECONDS = 120
"""Of one call; compiling an engine for the first time takes the longest."""
NOT_CALLED = {
    "CompiledModel", "Emitted", "Reduced", "Run", "RunRecord",  # what functions return
    "CollectiveKind", "ReduceOp", "TaskKind", "TrainingPhase",  # enumerations
    "__version__",
}
RIGHT: Mapping[str, tuple[str, ...]] = {
    # By "name.parameter" or ".parameter"; None is right wherever it is the default.
    ".latency_s": ("0", "1.5"),
    ".router_latency_s": ("0", "1.5"),
    ".bandwidth_bytes_per_s": ("1.5",),
    "Dimension.fat_tree.trunk_bandwidth_bytes_per_s": ("1.5",),
    ".graph": ("None",),
    ".group": ("0",),
    ".interleave": ("0",),
    ".phases": ("0",),
    ".faults": ("[]",),
    ".lane": ("0",),
    ".source": ("0", "'x'", "''"),
    ".target": ("0",),
    ".bandwidth_factor": ("0",),
    ".name": ("'x'", "''"),
    ".note": ("'x'", "''"),
    ".title": ("'x'", "''"),
    ".layers": ("[]",),
    ".after": ("[]",),
    ".duration_s": ("0", "1.5"),
    ".call": ("None",),
    ".peer": ("None", "0"),
    ".tag": ("0",),
    ".size_bytes": ("0",),
    ".layer": ("0", "-1"),
    ".iteration": ("0",),
    ".memory_bytes": ("0",),
    ".priority": ("0", "-1"),
    ".reductions": ("[]",),
    ".halves": ("[]",),
    "endpoint.ring": ("None",),
    ".chunk_bytes": ("1.5", "None"),
    ".least_chunk_bytes": ("0", "1.5"),
    ".concurrency": ("None",),
    "Network.view.dimensions": ("None", "[]"),
    ".memory_bytes_per_s": ("1.5",),
    ".lost_memory_bytes_per_s": ("None", "0", "1.5"),
    ".message_bytes": ("1.5",),
    ".fetch_cycles": ("0", "1.5"),
    ".receive_cycles": ("0", "1.5"),
    ".alu_cycles": ("0", "1.5"),
    ".store_cycles": ("0", "1.5"),
    ".read_latency_s": ("0", "1.5"),
    ".bucket_cycles": ("0",),
    # Behind ``**``, so that no default is seen.
    ".window_cycles": ("None",),
    ".trunk_bandwidth_bytes_per_s": ("None",),
    ".logical_shape": ("None",),
    ".placement": ("None",),
    ".parallelism": ("None",),
    ".watchdog_cycles": ("0",),
    ".stages": ("0",), ".alu_stages": ("0",), ".age_bits": ("0",),
    ".link_stalls": ("0",), ".memory_stalls": ("0",), ".host_stalls": ("0",),
    ".link_loss": ("0",), ".link_repetition": ("0",), ".link_damage": ("0",),
    ".host_bytes_per_cycle": ("1.5",),
    ".seed": ("0",),
    ".columns": ("[]",),
    ".rows": ("[]", "[[]]"),
    ".report": ("type",),
    ".on_step": ("type",),
    ".changes": ("{}",),
    ".algorithms": ("{}",),
    ".stragglers": ("{}",),
    ".bucket_s": ("0", "1.5"),
    ".buckets": ("0",),
    ".spans": ("0",),
    ".compute_scale": ("1.5",), ".comm_scale": ("1.5",),
    ".control_cycles": ("0",),
    ".folder": ("'x'", "''"),
    ".directory": ("'x'", "''"),
    ".data": ("{}", "{'x': 1}"),
    ".provenance": ("{}", "{'x': 1}"),
    ".header": ("{}", "{'x': 1}"),
    ".command": ("'x'", "''"),
    ".trace": ("[]",),
    ".load": ("[]",),
    ".timeout": ("1.5",),
}
CALLED_OTHERWISE = {
    ("AceRing", "config"): "preset",
    ("NicRing", "config"): "preset",
    ("endpoint", "kind"): "endpoint",
    ("run", "description"): "",  # the error is the file's, or that of a key in it
    ("run", "changes"): "",
    ("sweep", "description"): "",
    ("train", "all_reduce"): "",  # called with vectors, it fails in its own way
}


class TooLongError(BaseException):
    """Nobody catches it."""


def stop(*_: object) -> None:
    raise TooLongError


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Call]:
    return calls(tmp_path_factory.mktemp("calls"))



def wrong(name: str, call: Call) -> list[str]:
    """What is not as it should be of a call, each parameter with each value."""
    found = []
    defaults = {
        key: each.default for key, each in parameters_with_defaults(call).items()
    }
    for parameter in parameters_of(call):
        right = {*RIGHT.get(f".{parameter}", ()), *RIGHT.get(f"{name}.{parameter}", ())}
        if defaults.get(parameter, ...) is None:
            right.add("None")
        said = CALLED_OTHERWISE.get((name, parameter), parameter)
        for label, value in VALUES.items():
            signal.alarm(MOST_SECONDS)
            try:
                made = call.what(**{**call.arguments, parameter: value})
            except TooLongError:
                found.append(f"{name}({parameter}={label}) does not end")
            except (ValueError, TypeError, RuntimeError) as error:
                if "\n" in str(error) or not (said in str(error) or parameter in str(error)):
                    found.append(f"{name}({parameter}={label}): {type(error).__name__}: {error}")
            except Exception as error:
                found.append(f"{name}({parameter}={label}): {type(error).__name__}: {error}")
            else:
                if hasattr(made, "_MustUse__silence"):
                    made._MustUse__silence = True  # a component that nobody elaborates
                if label not in right:
                    found.append(f"{name}({parameter}={label}) is accepted")
            finally:
                signal.alarm(0)
    return found


def parameters_with_defaults(call: Call):  # type: ignore[no-untyped-def]
    import inspect

    return inspect.signature(call.what).parameters


def test_wrong_arguments_are_named(everything, tmp_path, monkeypatch, capfd) -> None:
    """Of every function and class of the door and the methods that make or run something."""
    monkeypatch.chdir(tmp_path)
    before = signal.signal(signal.SIGALRM, stop)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [each for name, call in everything.items() for each in wrong(name, call)]
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not found, "\n".join(found)


def test_nothing_public_is_left_out(everything) -> None:
    listed = {name.split(".")[0].removesuffix("()") for name in everything}

    assert {*fw.__all__} - NOT_CALLED - listed == set()
    for name in NOT_CALLED - {"__version__"}:
        made = getattr(fw, name)
        assert issubclass(made, enum.Enum) or name in fw.__all__


@dataclass
class Careless:
    """What this test is there to find."""

    size: int = 1

    def __post_init__(self) -> None:
        if self.size > 3:
            raise OverflowError("too large")
        if self.size == 0:
            raise ValueError("no such thing")


def test_careless_checks_are_found() -> None:
    found = wrong("Careless", Call(Careless, {}))

    assert "Careless(size=nan) is accepted" in found
    assert "Careless(size=-1) is accepted" in found
    assert "Careless(size=0): ValueError: no such thing" in found
    assert "Careless(size=10**30): OverflowError: too large" in found
    assert any(each.startswith("Careless(size=None): TypeError: '>' not") for each in found)


@typed("skipped", least={"count": 1}, above={"share": 0}, most={"share": 1})
def careful(
    count: int, share: float = 0.5, *, names: tuple[str, ...] = (), skipped: object = None
) -> int:
    return count


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": "3"}, "count must be an integer, not '3'"),
        ({"count": True}, "count must be an integer, not True"),
        ({"count": 0}, "count must be at least 1, not 0"),
        ({"count": 2**63}, "count must be an integer of at most 64 bits, not 9223372036854775808"),
        ({"count": 1, "share": float("nan")}, "share must be a finite number below 1e+24, not nan"),
        ({"count": 1, "share": 0}, "share must be above 0 and at most 1, not 0"),
        ({"count": 1, "names": "ab"}, "names must be a sequence of texts, not 'ab'"),
        ({"count": 1, "names": [1]}, "names must be a sequence of texts, not list"),
    ],
)
def test_arguments_are_checked_by_their_annotations(arguments, message) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        careful(**arguments)

    assert str(refused.value) == message
    assert careful(2, 1, names=["a"], skipped=careful) == 2
