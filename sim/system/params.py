"""The 28 parameters of the ASTRA-SIM paper's Table III, and the keys of its released code.

Text files hold one ``key: value`` (or ``key = value``) a line. Several files describe one system:
each adds keys, and a key stands once. Keys of later releases are mapped to what they mean here or
refused with the reason; nothing is ignored in silence.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from sim.config_reader import ConfigError, Place, check, read_text, unknown_key

__all__ = [
    "AstraExtras",
    "AstraParameters",
    "Stated",
    "construct",
    "key_of",
    "merge",
    "parse_table",
    "parse_text",
    "read_files",
    "stated_for",
]

T = TypeVar("T")


def _key(
    name: str,
    *aliases: str,
    default: Any = MISSING,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    choices: Mapping[str, str] | None = None,
    number: int = 0,
) -> Any:
    """A field with the names that files use and the values that they may hold."""
    metadata = {
        "number": number,
        "names": (name, *aliases),
        "least": least,
        "most": most,
        "above": above,
        "choices": choices,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class AstraParameters:
    """Table III, in its order. Delays are cycles of the system clock (1 GHz in the released code).

    Defaults are those of the paper's Table IV; what has none there is None and is then not part of
    the system. ``docs/reference/system.md`` says what each parameter changes.

    Raises
    ------
    ValueError
        Naming key, value and what is allowed, also where parameters contradict each other.
    """

    dnn_name: str | None = _key("DNN-name", "dnn-name", number=1, default=None)
    num_passes: int = _key("num-passes", number=2, default=1, least=1)
    algorithm: str = _key(
        "algorithm",
        "collective-optimization",
        number=3,
        default="baseline",
        choices={
            "baseline": "baseline",
            "enhanced": "enhanced",
            "localBWAware": "dimension_ordered",
        },
    )
    num_npus: int | None = _key("num-npus", number=4, default=None, least=2)
    num_packages: int | None = _key("num-packages", number=5, default=None, least=1)
    package_rows: int | None = _key("package-rows", number=6, default=None, least=1)
    scheduling_policy: str = _key(
        "scheduling-policy", number=7, default="lifo", choices={"LIFO": "lifo", "FIFO": "fifo"}
    )
    topology: str = _key(
        "topology",
        number=8,
        default="torus",
        choices={
            "Torus2D": "torus",
            "Torus3D": "torus",
            "AllToAll": "all_to_all",
            "NV_Switch": "all_to_all",
        },
    )
    local_rings: int = _key("local-rings", number=9, default=2, least=1)
    vertical_rings: int = _key("vertical-rings", number=10, default=2, least=1)
    horizontal_rings: int = _key("horizontal-rings", number=11, default=2, least=1)
    global_switches: int = _key("global-switches", "links-per-tile", number=12, default=1, least=1)
    endpoint_delay: int = _key("endpoint-delay", number=13, default=10, least=0)
    packet_routing: str = _key(
        "packet-routing",
        number=14,
        default="software",
        choices={"hardware": "hardware", "software": "software"},
    )
    injection_policy: str = _key(
        "injection-policy",
        number=15,
        default="normal",
        choices={
            "normal": "normal",
            "semiAggressive": "semi_aggressive",
            "aggressive": "aggressive",
            "extraAggressive": "extra_aggressive",
            "infinite": "infinite",
        },
    )
    preferred_set_splits: int = _key(
        "preferred-set-splits", "preferred-dataset-splits", number=16, default=4, least=1
    )
    local_link_efficiency: float = _key(
        "local-link-efficiency", number=17, default=0.94, above=0, most=1
    )
    package_link_efficiency: float = _key(
        "package-link-efficiency", number=18, default=0.94, above=0, most=1
    )
    flit_width: int = _key("flit-width", number=19, default=1024, least=8)
    local_packet_size: int = _key("local-packet-size", number=20, default=512, least=1)
    package_packet_size: int = _key("package-packet-size", number=21, default=256, least=1)
    tile_link_width: int = _key("tile-link-width", number=22, default=1600, least=1)
    package_link_width: int = _key("package-link-width", number=23, default=200, least=1)
    vcs_per_vnet: int = _key("vcs-per-vnet", number=24, default=50, least=1)
    router_latency: int = _key("router-latency", number=25, default=1, least=0)
    local_link_latency: int = _key("local-link-latency", number=26, default=90, least=0)
    package_link_latency: int = _key("package-link-latency", number=27, default=200, least=0)
    buffers_per_vc: int = _key("buffers-per-vc", number=28, default=5000, least=1)

    def __post_init__(self) -> None:
        _check_ranges(self)
        check("flit-width", self.flit_width, "a multiple of 8 bits", self.flit_width % 8 == 0)
        npus, packages, rows = self.num_npus, self.num_packages, self.package_rows
        if packages is not None:
            known = npus is not None and npus % packages == 0
            check("num-packages", packages, f"a divisor of num-npus, which is {npus}", known)
        if rows is not None:
            known = packages is not None and packages % rows == 0
            check("package-rows", rows, f"a divisor of num-packages, which is {packages}", known)
        if self.topology == "all_to_all":
            allowed = "1 or absent for an all-to-all topology, which has no rows"
            check("package-rows", rows, allowed, rows in (None, 1))

    @property
    def shape(self) -> tuple[int, ...]:
        """NPUs of a package and packages; those of a torus as columns (vertical) and rows.

        The vertical dimension has one NPU of each row. Without ``num-packages`` there is one NPU a
        package; without ``package-rows`` one row.
        """
        if self.num_npus is None:
            raise ValueError("num-npus must be given to build the topology, not None")
        packages = self.num_npus if self.num_packages is None else self.num_packages
        local = self.num_npus // packages
        if self.topology == "all_to_all":
            return local, packages
        rows = 1 if self.package_rows is None else self.package_rows
        return local, rows, packages // rows


IMPLEMENTATIONS = {
    "ring": "ring",
    "direct": "direct",
    "doubleBinaryTree": "tree",
    "halvingDoubling": "halving_doubling",
    "oneRing": "one_ring",
    "oneDirect": "one_direct",
    "oneDoubleBinaryTree": "one_tree",
    "oneHalvingDoubling": "one_halving_doubling",
}


@dataclass(frozen=True, kw_only=True)
class AstraExtras:
    """Keys of the released code that Table III does not have.

    None is a key that was not given. Implementations hold one algorithm per logical dimension, or
    a single ``one_...`` that sees all NPUs as one dimension.
    """

    active_chunks_per_dimension: int | None = _key(
        "active-chunks-per-dimension", default=None, least=1
    )
    boost_mode: int | None = _key("boost-mode", default=None, least=0, most=1)
    all_reduce_implementation: tuple[str, ...] | None = _key(
        "all-reduce-implementation", default=None
    )
    reduce_scatter_implementation: tuple[str, ...] | None = _key(
        "reduce-scatter-implementation", default=None
    )
    all_gather_implementation: tuple[str, ...] | None = _key(
        "all-gather-implementation", default=None
    )
    all_to_all_implementation: tuple[str, ...] | None = _key(
        "all-to-all-implementation", default=None
    )
    intra_dimension_scheduling: str | None = _key(
        "intra-dimension-scheduling", default=None, choices={"FIFO": "fifo"}
    )
    inter_dimension_scheduling: str | None = _key(
        "inter-dimension-scheduling", default=None, choices={"baseline": "baseline"}
    )
    routing_algorithm: str | None = _key(
        "routing-algorithm",
        default=None,
        choices={"Ring_XY": "torus", "AllToAll": "all_to_all"},
    )
    model_shared_bus: int | None = _key("model-shared-bus", default=None, least=0, most=1)
    loggp_latency: int | None = _key("L", default=None, least=0)
    loggp_overhead: int | None = _key("o", default=None, least=0)
    loggp_gap: int | None = _key("g", default=None, least=0)
    loggp_gap_per_byte: float | None = _key("G", default=None, least=0)
    compute_scale: float | None = _key("compute-scale", default=None, above=0)
    comm_scale: float | None = _key("comm-scale", default=None, above=0)

    def __post_init__(self) -> None:
        _check_ranges(self)


def _check_ranges(parameters: Any) -> None:
    for each in fields(parameters):
        value, limits = getattr(parameters, each.name), each.metadata
        if value is None:
            continue
        name = key_of(each)
        if limits["choices"] is not None:
            allowed = sorted(set(limits["choices"].values()))
            check(name, value, f"one of {', '.join(allowed)}", value in allowed)
        least, most, above = limits["least"], limits["most"], limits["above"]
        ok = type(value) not in (int, float) or (
            math.isfinite(value)
            and (least is None or value >= least)
            and (most is None or value <= most)
            and (above is None or value > above)
        )
        check(name, value, _range(least, most, above), ok)


def _range(least: float | None, most: float | None, above: float | None) -> str:
    low = f"above {above:g}" if above is not None else "" if least is None else f"at least {least}"
    high = "" if most is None else f"at most {most:g}"
    return " and ".join(part for part in (low, high) if part) or "a finite number"


REFUSED = {
    "fast-forward": "a shortcut of another simulator; folding gives exact results instead",
    "local-reduction-delay": "what a sum costs follows from the endpoint: [endpoint] npu",
    "peak-perf": "state flops_per_s in [workload.compute] instead",
    "local-mem-bw": "state memory_bytes_per_s in [endpoint.npu] instead",
    "roofline-enabled": "state kind in [workload.compute] instead",
    "perpendicular-rings": "tori of more dimensions are described by [[dimension]]",
    "fourth-rings": "tori of more dimensions are described by [[dimension]]",
    "collective-implementation": "of a release before the shared samples; state "
    "all-reduce-implementation instead",
}
"""Keys that are known, and why they are not taken."""


@dataclass(frozen=True, kw_only=True)
class Stated:
    """A value as some file gave it."""

    field: str
    value: Any
    place: Place


_OWNERS = {
    each.name: (kind, each) for kind in (AstraParameters, AstraExtras) for each in fields(kind)
}
_FIELDS = {name: f for _, f in _OWNERS.values() for name in f.metadata["names"]}
_LINE = re.compile(r"\s*([A-Za-z][\w-]*)\s*[:=]\s*(.*?)\s*(?:#.*)?$")


def key_of(each: Field[Any]) -> str:
    """The name of a field in files: Table III's."""
    name: str = each.metadata["names"][0]
    return name


def parse_text(text: str, *, source: str) -> list[Stated]:
    """All values of a text file.

    Raises
    ------
    ConfigError
        With *source*, line, key, value and what is allowed.
    """
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.split("#", 1)[0].strip():
            continue
        match = _LINE.match(line)
        if match is None:
            raise Place(source, number, "").error(
                f"must be of the form 'key: value', not {line.strip()!r}"
            )
        place = Place(source, number, match[1])
        each = _field(place)
        found.append(Stated(field=each.name, value=_from_text(each, match[2], place), place=place))
    return found


def parse_table(
    table: Mapping[str, Any], *, place: Callable[[str], Place] | None = None
) -> list[Stated]:
    """All values of a TOML table or of a dictionary, with the keys of text files.

    *place* says where a key stands.
    """
    found = []
    for key, value in table.items():
        where = place(key) if place else Place("parameters", None, key)
        each = _field(Place(where.source, where.line, key))
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise where.error(f"must be {_kind_words(each)}, not {value!r}")
        taken = _from_text(each, str(value), where)
        found.append(Stated(field=each.name, value=taken, place=where))
    return found


def read_files(*paths: str | Path) -> list[Stated]:
    """The values of several text files together."""
    return [each for path in paths for each in parse_text(read_text(path), source=str(path))]


def merge(stated: Iterable[Stated]) -> dict[str, Stated]:
    """By field; a value may stand once.

    Raises
    ------
    ConfigError
        Naming both places of a value that stands twice.
    """
    found: dict[str, Stated] = {}
    for each in stated:
        first = found.setdefault(each.field, each)
        if first is not each:
            where = f"{first.place.source}:{first.place.line or '?'}"
            raise each.place.error(
                f"stands twice, first at {where} as {first.place.key} = {first.value!r}"
            )
    return found


def stated_for(kind: type, stated: Mapping[str, Stated]) -> dict[str, Any]:
    """The values that belong to `AstraParameters` or to `AstraExtras`."""
    return {name: each.value for name, each in stated.items() if _OWNERS[name][0] is kind}


def construct(kind: type[T], stated: Mapping[str, Stated]) -> T:
    """The dataclass *kind* from what was stated; errors name the place of the value.

    A torus has no global switches and an all-to-all topology no vertical or horizontal rings; to
    state them there is an error.
    """
    try:
        made = kind(**stated_for(kind, stated))
    except ValueError as error:
        name, _, rest = str(error).partition(" ")
        each = stated.get(_FIELDS[name].name)
        if each is not None:
            raise each.place.error(rest) from error
        raise ConfigError(str(error)) from error
    if isinstance(made, AstraParameters):
        of_other = {
            "torus": ("global_switches",),
            "all_to_all": ("vertical_rings", "horizontal_rings"),
        }
        for name in of_other[made.topology]:
            if name in stated:
                raise stated[name].place.error(
                    f"must be absent for topology {made.topology}, not {stated[name].value!r}"
                )
    return made


def _field(place: Place) -> Field[Any]:
    if place.key in REFUSED:
        raise place.error(f"is not supported: {REFUSED[place.key]}")
    if place.key not in _FIELDS:
        raise place.error(unknown_key(place.key, _FIELDS))
    return _FIELDS[place.key]


def _from_text(each: Field[Any], text: str, place: Place) -> Any:
    """The value of a field that a file spells as *text*; ranges are checked later."""
    if each.metadata["choices"] is not None:
        choices = each.metadata["choices"]
        if text not in choices:
            raise place.error(f"must be one of {', '.join(choices)}, not {text!r}")
        return choices[text]
    kind = _kind(each)
    if kind is str and text:
        return text
    if kind is int and re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    if kind is float:
        try:
            return float(text)
        except ValueError:
            pass
    if kind is tuple and text and all(part in IMPLEMENTATIONS for part in text.split("_")):
        parts = tuple(IMPLEMENTATIONS[part] for part in text.split("_"))
        if len(parts) == 1 or not any(part.startswith("one_") for part in parts):
            return parts
    raise place.error(f"must be {_kind_words(each)}, not {text!r}")


def _kind(each: Field[Any]) -> type:
    """int, float, str or tuple (of implementations)."""
    hint = get_type_hints(_OWNERS[each.name][0])[each.name]
    if hint in (int, float, str):
        return hint  # type: ignore[no-any-return]
    first = get_args(hint)[0]
    return first if first in (int, float, str) else tuple


def _kind_words(each: Field[Any]) -> str:
    if each.metadata["choices"] is not None:
        return f"one of {', '.join(each.metadata['choices'])}"
    return {
        int: "an integer",
        float: "a number",
        str: "a text",
        tuple: f"algorithms joined by '_', of {', '.join(IMPLEMENTATIONS)}; one... stands alone",
    }[_kind(each)]
