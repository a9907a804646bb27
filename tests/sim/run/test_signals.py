# SPDX-License-Identifier: Apache-2.0
"""Waveforms of RTL nodes, as a description asks for them."""

import pytest
from vcd.reader import TokenKind, tokenize

from sim.describe.reader import ConfigError
from sim.run import run

RING = {
    "topology": {"kind": "ring", "shape": [3], "bandwidth_bytes_per_s": 16 * 1.245e9,
                 "latency_s": 6e-9},
    "endpoint": {"kind": "ace", "preset": "test", "level": "rtl"},
    "workload": {"collective": "all_reduce", "size_bytes": 1204},
    "run": {"passes": 1, "trace_signals": ["link__0__tx__t*", "dispatcher.fsm_state"]},
}
MIXED = {**RING["endpoint"], "level": "cycles", "on": [{"nodes": [1], "level": "rtl"}]}


def changes(path):
    """Dotted name -> (picoseconds, value) of every change in a VCD file."""
    names, scopes, now, found = {}, [], 0, {}
    with path.open("rb") as file:
        for token in tokenize(file):
            if token.kind is TokenKind.SCOPE:
                scopes.append(token.scope.ident)
            elif token.kind is TokenKind.UPSCOPE:
                scopes.pop()
            elif token.kind is TokenKind.VAR:
                names[token.var.id_code] = ".".join([*scopes, token.var.reference])
            elif token.kind is TokenKind.CHANGE_TIME:
                now = token.time_change
            elif token.kind in (TokenKind.CHANGE_SCALAR, TokenKind.CHANGE_VECTOR,
                                TokenKind.CHANGE_STRING):
                found.setdefault(names[token.data.id_code], []).append((now, token.data.value))
    return found


@pytest.mark.parametrize(("endpoint", "nodes"), [(RING["endpoint"], [0, 1, 2]), (MIXED, [1])])
def test_waveforms_of_rtl_nodes_are_saved_with_the_run(tmp_path, endpoint, nodes):
    done = run({**RING, "endpoint": endpoint})
    done.save(tmp_path, figures=False)

    seen = changes(tmp_path / "signals.vcd")
    assert list(done.signals) == nodes
    assert {name.partition(".")[0] for name in seen} == {f"node_{node}" for node in nodes}
    clock_hz = done.description.engine.clock_hz
    for node in nodes:
        # The link takes the first beat in the cycle in which it is offered.
        valid = seen[f"node_{node}.link__0__tx__tvalid"]
        rise = next(time for time, value in valid if value == "1")
        first = done.engines.links[node, 0].first_cycle
        assert rise == round(first * 1e12 / clock_hz)
        assert "IDLE" in {value.upper() for _, value in seen[f"node_{node}.dispatcher.fsm_state"]}
        beats = [value for _, value in seen[f"node_{node}.link__0__tx__tdata"]]
        assert max(value for value in beats if isinstance(value, int)) >> 64  # wide ones are whole


def test_a_run_without_patterns_has_no_waveforms(tmp_path):
    done = run({**RING, "run": {"passes": 1}})
    done.save(tmp_path, figures=False)

    assert not done.signals and not (tmp_path / "signals.vcd").exists()


def test_a_signal_that_does_not_exist_is_one_line_with_near_names():
    with pytest.raises(ConfigError) as caught:
        run({**RING, "run": {"trace_signals": ["dispatcher.fsm_stat"]}})
    text = str(caught.value)
    assert text.startswith("system: run.trace_signals: no signal matches 'dispatcher.fsm_stat'; ")
    assert "'dispatcher.fsm_state'" in text and "\n" not in text


def test_where_there_is_no_rtl_patterns_are_refused():
    wanted = "run.trace_signals: has no meaning at level 'cycles', only at rtl"
    with pytest.raises(ConfigError, match=wanted):
        run({**RING, "endpoint": {**RING["endpoint"], "level": "cycles"}})
