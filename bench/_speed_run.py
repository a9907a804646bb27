"""One run of ``sim_speed`` in a process of its own: ``python -m bench._speed_run CASE FOLD``."""

import sys
from collections.abc import Callable

__all__ = ["CASES", "main"]

# Name -> (reference simulator, its seconds (measured elsewhere, alone on one core), what to run).
CASES: dict[str, tuple[str, float | None, tuple[object, ...]]] = {}


def _fill() -> None:
    training = {
        "resnet50": {(4, 4): 4.8, (4, 4, 4): 7.4, (8, 8, 8): 26.0, (8, 8, 16): 74.7},
        "dlrm": {(4, 4): None, (4, 4, 4): 0.37, (8, 8, 8): 3.7, (8, 8, 16): None},
        "transformer": {(4, 4): None, (4, 4, 4): 5.0, (8, 8, 8): 19.5, (8, 8, 16): None},
    }
    for workload, shapes in training.items():
        for shape, seconds in shapes.items():
            name = f"{workload} {'x'.join(map(str, shape))}"
            CASES[name] = ("1.0", seconds, ("training", workload, shape))
    reduces = [
        ("ring", (8,), 4, 1, 0.008),
        ("ring", (4, 4), 4, 1, 0.010),
        ("ring", (4, 4, 4), 4, 1, 0.023),
        ("ring", (8, 8, 8), 4, 1, 0.16),
        ("ring", (8, 8, 16), 4, 1, 0.40),
        ("ring", (64,), 4, 1, 0.041),
        ("ring", (512,), 4, 1, 1.9),
        ("ring", (1024,), 4, 1, 9.1),
        ("switch", (512,), 4, 1, 0.35),
        ("switch", (1024,), 4, 1, 1.2),
        ("ring", (8, 8, 8), 64, 8, 7.0),
        ("ring", (8, 8, 8), 64, 64, 7.4),
    ]
    for kind, shape, splits, active, seconds in reduces:
        name = f"all-reduce {kind} {'x'.join(map(str, shape))} {splits}/{active}"
        version = "1.0" if shape in ((8, 8, 8), (8, 8, 16)) and splits == 4 else "2.x"
        CASES[name] = (version, seconds, ("reduce", kind, shape, splits, active))


_fill()


def main(argv: list[str]) -> None:
    """Run a case; print messages and simulated nanoseconds."""
    case, fold = argv
    what: Callable[..., object] = {"training": _training, "reduce": _reduce}[CASES[case][2][0]]  # type: ignore[index]
    record = what(*CASES[case][2][1:], fold)
    print(int(record.phases.messages.sum()), round(record.end_fs / 1e6))  # type: ignore[attr-defined]


def _training(workload: str, shape: tuple[int, ...], fold: str) -> object:
    from bench._reference import record_of, release_1

    return record_of(release_1(shape, {"shipped": workload}), fold=fold, passes=2)


def _reduce(kind: str, shape: tuple[int, ...], splits: int, active: int, fold: str) -> object:
    from bench._reference import all_reduce, record_of, release_2
    from sim.units import MIB

    work = all_reduce(64 * MIB)
    return record_of(release_2(shape, work, splits=splits, active=active, kind=kind), fold=fold)


if __name__ == "__main__":
    main(sys.argv[1:])
