# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Chosen signals of a native model as a waveform, read back."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out
from vcd.reader import TokenKind, tokenize

from gen.compile import compile_model
from gen.waves import Waveform


class Mode(enum.Enum, shape=2):
    LOW = 0
    HIGH = 2


class Counter(wiring.Component):
    step: In(70)
    mode: Out(Mode)
    value: Out(70)

    def elaborate(self, platform):
        m = Module()
        parity = Signal()
        m.d.comb += parity.eq(self.value.xor())
        m.d.sync += self.value.eq(self.value + self.step)
        with m.FSM():
            with m.State("WAIT"):
                with m.If(parity):
                    m.next = "GO"
            with m.State("GO"):
                m.d.comb += self.mode.eq(Mode.HIGH)
                m.next = "WAIT"
        return m


class Pair(wiring.Component):
    step: In(8)
    total: Out(70)

    def elaborate(self, platform):
        m = Module()
        m.submodules.first = first = Counter()
        m.submodules.second = second = Counter()
        m.d.comb += [first.step.eq(self.step), second.step.eq(self.step << 60)]
        m.d.sync += self.total.eq(first.value ^ second.value)
        return m


def read(path):
    """Values at each time by dotted name, from a VCD file."""
    names, scopes, now, values, seen = {}, [], 0, {}, {}
    with path.open("rb") as file:
        for token in tokenize(file):
            if token.kind is TokenKind.SCOPE:
                scopes.append(token.scope.ident)
            elif token.kind is TokenKind.UPSCOPE:
                scopes.pop()
            elif token.kind is TokenKind.VAR:
                names[token.var.id_code] = ".".join([*scopes, token.var.reference])
            elif token.kind is TokenKind.CHANGE_TIME:
                seen[now] = dict(values)
                now = token.time_change
            elif token.kind in (TokenKind.CHANGE_SCALAR, TokenKind.CHANGE_VECTOR,
                                TokenKind.CHANGE_STRING):
                change = token.data
                value = change.value
                values[names[change.id_code]] = int(value) if value in ("0", "1") else value
    seen[now] = dict(values)
    return seen


@pytest.mark.parametrize("generator", ["native", "cxxrtl"])
def test_a_waveform_has_the_names_and_values_of_the_source(tmp_path, generator):
    model = compile_model(
        Pair(), generator=generator, cache_dir=tmp_path,
        trace=["second.*", "*.parity", "total", "step"],
    )
    assert {each.dotted for each in model.traced} == {
        "second.step", "second.mode", "second.value", "second.parity", "second.fsm_state",
        "first.parity", "total", "step",
    }
    with model.instance() as instance, Waveform(instance, tmp_path / "pair.vcd") as wave:
        instance.set("step", 3)
        wave.cycle(6)

    seen = read(tmp_path / "pair.vcd")
    first = second = 0
    state = "WAIT"
    for edge in range(1, 7):
        odd = bin(second).count("1") % 2
        total = first ^ second
        first, second = (first + 3) % 2**70, (second + (3 << 60)) % 2**70
        state = "GO" if state == "WAIT" and odd else "WAIT"
        now = seen[10 * edge]
        assert now["top.clk"] == 1 and seen[10 * edge + 5]["top.clk"] == 0
        assert now["top.second.value"] == second
        assert now["top.total"] == total
        assert now["top.step"] == 3
        assert now["top.second.step"] == 3 << 60
        assert now["top.second.fsm_state"] == state
        assert now["top.second.mode"] == ("HIGH" if state == "GO" else "LOW")
        assert now["top.first.parity"] == bin(first).count("1") % 2
        assert now["top.second.parity"] == bin(second).count("1") % 2


def test_a_model_without_traces_is_what_it_was(tmp_path):
    plain = compile_model(Pair(), cache_dir=tmp_path)
    traced = compile_model(Pair(), cache_dir=tmp_path, trace=["total"])

    assert plain.path == traced.path, "a port that is traced needs nothing new"
    with plain.instance() as instance, pytest.raises(ValueError, match="compile it with trace"):
        Waveform(instance, tmp_path / "none.vcd")


def test_a_pattern_without_a_signal_is_refused(tmp_path):
    wanted = r"no signal matches 'secnd\.value'; the nearest are 'second\.value', '\w+"
    with pytest.raises(ValueError, match=wanted):
        compile_model(Pair(), cache_dir=tmp_path, trace=["secnd.value"])
    with pytest.raises(TypeError, match=r"^trace must be a sequence of texts"):
        compile_model(Pair(), cache_dir=tmp_path, trace="total")
