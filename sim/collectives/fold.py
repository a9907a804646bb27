# SPDX-License-Identifier: Apache-2.0
"""Rings in which one engine stands for all: the commands that they can have.

A ring looks the same from each of its ranks: rank *r* does to block *b + r* what rank 0 does to
block *b*. So a rank is an image of rank 0, cycle for cycle, as long as nothing in it depends on the
number of a block. `check_alike` refuses what does:

* **length**: all shards (or contiguous chunks) must be equal, of whole beats, or packets of some
  blocks are shorter;
* **parts**: an all-reduce behind another one must have runs of whole ones of that, or sums are made
  in another order at another rank;
* **SRAM bank**: block *b* lies *b* times its beats behind the start of a slot, and ranks differ by
  whole runs of blocks, so a run must be a multiple of the banks that consecutive beats take turns
  in, or the same packet meets other accesses at another rank. The last chunk of shards has blocks
  of its own size. A slot lies in one group of banks (`hw.ace.config`).

Memory needs no rule: all ranks have the same addresses, and an own shard lies alone at the start of
its buffer.

The engine that stands for all gets its own packets in place of those of the previous rank, that is
partial sums of its *own* shards. These are the sums of a ring in which rank *r* has the vector of
rank 0 with shards moved on by *r* in a circle (`AceProgram.images`); `AceProgram.rotated` says what
it must hold.
"""

from dataclasses import replace

from hw.ace.config import ELEMENT_BYTES
from sim.collectives.ace_program import AceProgram
from sim.fields import FieldError, FoldError
from sim.workload.graph import CollectiveKind

__all__ = ["check_alike"]

_NEAR = 64  # lengths that are tried in either direction


def check_alike(
    program: AceProgram, elements: int, *, block: int | None, collective: CollectiveKind
) -> None:
    """Refuse a vector whose cut makes ranks differ in more than the numbers of their blocks.

    Raises
    ------
    FoldError
        With the nearest length that is alike, if there is one within some steps.
    """
    _check_parts(program, collective)
    unlike = _unlike(program, elements, block, collective)
    if unlike is None:
        return
    field, value, why = unlike
    near = " or ".join(map(str, _near(program, elements, block, collective)))
    ways = [f"{near} elements of {ELEMENT_BYTES} B"] if near else []
    if block is not None and field != "elements":
        ways += [f"a block of {each}" for each in _near_block(program, elements, collective)]
    if field != "elements":
        ways.append("fewer banks")
        for each in _near_interleave(program, elements, block, collective):
            ways.append(f"an interleave of {each} of the {program.config.banks} banks")
    what = f"cannot be {value} where one engine stands for all {program.nodes} ranks: {why}"
    raise FoldError(field, f"{what}; it works with {', or '.join(ways)}")


def _check_parts(program: AceProgram, collective: CollectiveKind) -> None:
    """Refuse an all-reduce behind another one that cuts through the parts of that: sums of one part
    would have been made in other orders, rank by rank."""
    if program.torus is None or collective is not CollectiveKind.ALL_REDUCE:
        return
    for path in range(len(program.torus.paths)):
        digits = program.torus.digits(collective, path)
        steps = program.torus.steps(collective, path)
        runs = [
            phase[-1] for (_, kind), phase in zip(steps, digits, strict=True) if kind is collective
        ]
        for dimension, run in runs[1:]:
            if run % runs[0][1]:
                raise FoldError(
                    "wiring", f"cannot be of style {program.torus.style} on "
                    f"{' x '.join(map(str, program.torus.shape))} nodes where one engine stands "
                    f"for all: runs of {run} blocks in dimension {dimension} cut through those of "
                    f"{runs[0][1]} in dimension {runs[0][0]}; it works with dimension_ordered, "
                    "multi_colour and halves"
                )


def _unlike(
    program: AceProgram, elements: int, block: int | None, collective: CollectiveKind
) -> tuple[str, int, str] | None:
    """A part of a vector's cut with which ranks differ, its size and the reason."""
    cut = program.cut(elements, block=block, collective=collective)
    lanes, banks = program.config.lanes, program.config.group_banks
    if cut.elements != cut.rounded:
        what = "chunks" if cut.contiguous else "shards"
        why = f"{what} of whole beats of {lanes} would be unequal"
        return "elements", cut.elements, why
    sizes = {"block": cut.block} if cut.chunks > 1 or cut.contiguous else {}
    if not cut.contiguous:
        sizes["last block"] = cut.stride - (cut.chunks - 1) * cut.block
    run = min(program.runs(collective))  # ranks differ by whole ones
    for name, size in sizes.items():
        if run * size % (lanes * banks):
            its = "its" if run == 1 else f"{run} times its"
            beats = f"{its} {size // lanes} beats are no multiple of {banks} banks"
            return name, size, f"{beats}, so conflicts at banks would depend on the rank"
    return None


def _near_block(
    program: AceProgram, elements: int, collective: CollectiveKind
) -> list[int]:
    """The block that is chosen, if ranks are alike with it."""
    if _unlike(program, elements, None, collective) is None:
        return [program.cut(elements, collective=collective).block]
    return []


def _near_interleave(
    program: AceProgram, elements: int, block: int | None, collective: CollectiveKind
) -> list[int]:
    """The most banks that beats may take turns in, if ranks are alike with fewer of them."""
    banks = program.config.group_banks // 2
    while banks:
        try:
            grouped = replace(program, config=replace(program.config, interleave=banks))
            if _unlike(grouped, elements, block, collective) is None:
                return [banks]
        except FieldError:  # not of this SRAM, or a block that its slots do not hold
            return []
        banks //= 2
    return []


def _near(
    program: AceProgram, elements: int, block: int | None, collective: CollectiveKind
) -> list[int]:
    """The nearest shorter and longer vectors that are alike at all ranks."""
    step = program.nodes * program.config.lanes * program.config.group_banks
    found = []
    for first, way in ((elements // step, -1), (elements // step + 1, 1)):
        for count in range(first, first + way * _NEAR, way):
            if count > 0 and _unlike(program, count * step, block, collective) is None:
                found.append(count * step)
                break
    return found
