# SPDX-License-Identifier: Apache-2.0
"""FP32 to integers and back, as native code, beside arithmetic of 64 bits."""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from gen.compile import compile_model
from hw.switch.packet import HEADER
from hw.switch_dma.fixed_point import UNIT_BITS, FixedToFloat, FloatToFixed, reach, unit_of
from tb.switch_dma.fixed_point import headroom, to_fixed, to_float
from tb.switch_dma.fixed_point import unit_of as golden_unit

MEMBERS = (2, 3, 4, 5, 8, 16, 17, 128, 129, 256)
TO_FIXED, TO_FLOAT = 3, 4
"""Cycles."""


@pytest.fixture(scope="module")
def to_integers():
    return compile_model(FloatToFixed(1), name="float_to_fixed")


@pytest.fixture(scope="module")
def to_numbers():
    return compile_model(FixedToFloat(1), name="fixed_to_float")


def through(instance, words, cycles, **settings):
    """Outputs for *words*, one per cycle."""
    words = np.concatenate([np.asarray(words, np.uint32), np.zeros(cycles - 1, np.uint32)])
    for name, value in settings.items():
        instance.set(name, value)
    instance.set("o_ready", 1)
    rows = {"i_payload": words.astype(np.uint64 if cycles == TO_FIXED else np.uint32),
            "i_valid": np.ones(len(words), np.uint32)}
    return instance.run(rows, ["o_payload"])["o_payload"][cycles - 1 :]


def encodings(unit, rng):
    """Words of every exponent, and near to what *unit* makes halves and limits of."""
    exponents = np.repeat(np.arange(256, dtype=np.uint32), 4)
    fractions = rng.integers(1 << 23, size=len(exponents), dtype=np.uint32)
    fractions[::4] = rng.choice([0, 1, 0x7FFFFF, 0x400000], len(fractions[::4]))
    words = [exponents << 23 | fractions]
    integers = np.concatenate([np.arange(-6, 7), 1 << np.arange(31), (1 << np.arange(31)) - 1])
    for part in (0.5, 0.25, 0.75, 0.0):  # halves are even and odd
        with np.errstate(over="ignore"):
            exact = np.ldexp(integers + part, unit - 149).astype(np.float32)
            words += [np.nextafter(exact, np.float32(side)).view(np.uint32)
                      for side in (-np.inf, np.inf)] + [exact.view(np.uint32)]
    every = np.concatenate(words)
    return np.concatenate([every, every ^ np.uint32(1 << 31)])


def test_integers_of_every_exponent_in_every_unit(to_integers):
    rng = np.random.default_rng(1)
    wrong = seen = beyond = 0
    with to_integers.instance() as instance:
        for unit in range(255):
            members = MEMBERS[unit % len(MEMBERS)]
            words = encodings(unit, rng)
            got = through(instance, words, TO_FIXED, fixed=1, unit=unit,
                          reach=(1 << headroom(members)) - 1)
            integers, outside = to_fixed(words.view(np.float32), unit, members)
            said = got >> 33 & 1 == 1
            wrong += int((said != outside).sum())
            same = (got & 0xFFFF_FFFF).astype(np.uint32).view(np.int32) == integers
            wrong += int((~same & ~outside).sum())
            seen, beyond = seen + len(words), beyond + int(outside.sum())

    assert wrong == 0 and seen > 500_000 and 0.05 * seen < beyond < 0.6 * seen


class Window(wiring.Component):
    """What follows from a window and the number of members, a cycle later."""

    def __init__(self):
        count = HEADER["count"].width
        super().__init__({"exponent": In(8), "members": In(count), "unit": Out(UNIT_BITS),
                          "reach": Out(count)})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += [self.unit.eq(unit_of(self.exponent, self.members)),
                     self.reach.eq(reach(self.members))]
        return m


def test_units_of_every_window_and_number_of_members():
    exponents, members = (each.ravel().astype(np.uint32)
                          for each in np.meshgrid(np.arange(1, 255), np.arange(2, 257)))
    model = compile_model(Window(), name="window")
    with model.instance() as instance:
        got = instance.run({"exponent": exponents, "members": members}, ["unit", "reach"])
    units = [golden_unit(int(e), int(p)) for e, p in zip(exponents, members)]
    assert got["unit"].tolist() == units
    assert got["reach"].tolist() == [(1 << headroom(int(p))) - 1 for p in members]


def test_numbers_of_integers_in_every_unit(to_numbers):
    rng = np.random.default_rng(2)
    steps = np.arange(-3, 4)
    near = ((1 << np.arange(32, dtype=np.int64))[:, None] + steps).ravel()
    with to_numbers.instance() as instance:
        for unit in range(255):
            size = rng.integers(1, 32, 900)
            drawn = rng.integers(1 << 31, size=900) >> size
            # Halves of the last place of a result, just and not just.
            halves = (rng.integers(1 << 24, size=300) << 7) + rng.choice([63, 64, 65], 300)
            integers = np.concatenate([near, drawn, halves >> rng.integers(7, size=300)])
            integers = np.concatenate([integers, -integers])
            integers = integers[(integers < 1 << 31) & (integers >= -(1 << 31))]
            got = through(instance, integers.astype(np.int32).view(np.uint32), TO_FLOAT,
                          fixed=1, unit=unit)
            expected = to_float(integers, unit)
            assert got.astype(np.uint32).tobytes() == expected.tobytes(), unit


def test_other_words_pass_as_they_are(to_integers, to_numbers):
    words = np.random.default_rng(3).integers(1 << 32, size=4000, dtype=np.uint32)
    for model, cycles in ((to_integers, TO_FIXED), (to_numbers, TO_FLOAT)):
        with model.instance() as instance:
            got = through(instance, words, cycles, fixed=0, unit=77)
        assert np.array_equal(got & 0xFFFF_FFFF, words)
        assert not (got >> 32).any()


@pytest.mark.parametrize("component, cycles", [(FloatToFixed, TO_FIXED), (FixedToFloat, TO_FLOAT)])
def test_beats_wait_for_the_output(component, cycles):
    """In order, none lost and none twice, each with what stands beside it."""
    lanes = 2
    model = compile_model(component(lanes), name="fixed_point_lanes")
    rng = np.random.default_rng(4)
    numbers = rng.standard_normal((500, lanes)).astype(np.float32)
    unit = 126
    if component is FloatToFixed:
        given = numbers.view(np.uint32)
        expected = to_fixed(numbers, unit, 4)[0].astype(np.int32).view(np.uint32)
    else:
        given = rng.integers(1 << 32, size=(500, lanes), dtype=np.uint32)
        expected = to_float(given.view(np.int32), unit).view(np.uint32)
    came = []
    with model.instance() as instance:
        instance.set("fixed", 1)
        instance.set("unit", unit)
        if component is FloatToFixed:
            instance.set("reach", 3)
        sent, shown = 0, False
        while len(came) < len(given):
            shown = sent < len(given) and (shown or rng.random() < 0.6)
            error = (sent % 7 == 3) << 64 if component is FloatToFixed else 0
            word = sum(int(each) << 32 * k for k, each in enumerate(given[min(sent, 499)]))
            instance.set("i_valid", shown)
            instance.set("i_payload", word | error)
            takes = rng.random() < 0.5
            instance.set("o_ready", takes)
            taken = shown and instance.get("i_ready")
            if instance.get("o_valid") and takes:
                came.append(instance.get("o_payload"))
            instance.cycle()
            sent, shown = sent + bool(taken), shown and not taken
    for number, (word, right) in enumerate(zip(came, expected)):
        assert [word >> 32 * k & 0xFFFF_FFFF for k in range(lanes)] == right.tolist(), number
        if component is FloatToFixed:
            assert word >> 64 == (number % 7 == 3), number
