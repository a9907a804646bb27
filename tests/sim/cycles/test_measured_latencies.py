# SPDX-License-Identifier: Apache-2.0
"""Stored latencies of event endpoints are those that the cycle models of the engines have."""

import json
from dataclasses import asdict, fields, replace

import pytest

from sim.cycles.ace.latencies import Latencies
from sim.cycles.measure import measure
from sim.cycles.port import READ
from sim.cycles.smartnic import model as nic
from sim.cycles.smartnic.state import DESCRIPTORS, FRAMES, ORDER, RESULTS, SUM
from sim.cycles.switch import model as switch
from sim.endpoint import latencies
from sim.endpoint.latencies import EventLatencies
from sim.engines.engine import engine_named
from sim.engines.registry import names

MEASURED = [(engine, name) for engine in names() for name in engine_named(engine).measures]


def found(engine):
    """All latencies of an engine, measured now."""
    every = [each() for each in engine_named(engine).measures.values()]
    return {name: cycles for each in every for name, cycles in each.items()}


def differing(engine):
    stored = asdict(EventLatencies.stored())
    return {name for name, cycles in found(engine).items() if stored[name] != cycles}


@pytest.mark.parametrize(("engine", "name"), MEASURED)
def test_measuring_again_gives_what_is_stored(engine, name):
    stored = asdict(EventLatencies.stored())
    measured = engine_named(engine).measures[name]()
    assert measured == {latency: stored[latency] for latency in measured}


def test_every_latency_is_measured():
    every = {latency for engine in names() for latency in found(engine)}
    assert every == {each.name for each in fields(EventLatencies)}


def test_the_command_stores_what_it_has_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(latencies, "__file__", str(tmp_path / "latencies.py"))
    measure().store()
    assert json.loads((tmp_path / "latencies.json").read_text()) == asdict(EventLatencies.stored())


@pytest.mark.parametrize(
    ("block", "seen"),
    [("parse", "ace_receive"), ("report", "ace_fetch"), ("event", "ace_store"),
     ("credit", "ace_credit"), ("check", "ace_start")],
)
def test_a_block_of_ace_that_takes_a_cycle_more_is_seen(block, seen, monkeypatch):
    table = Latencies.stored()
    later = replace(table, **{block: getattr(table, block) + 1})
    monkeypatch.setattr(Latencies, "stored", classmethod(lambda cls: later))
    assert seen in differing("ace")


@pytest.mark.parametrize(
    ("queue", "seen"),
    [(DESCRIPTORS, "nic_host"), (SUM, "nic_sum"), (RESULTS, "nic_result"),
     (FRAMES + 1, "nic_gather"), (ORDER, "nic_codec"), (READ, "nic_burst")],
)
def test_a_queue_of_the_nic_that_takes_a_cycle_more_is_seen(queue, seen, monkeypatch):
    allocate = nic.allocate

    def later(*args, **options):
        state = allocate(*args, **options)
        state.engine["latency"][:, queue] += 1
        return state

    monkeypatch.setattr(nic, "allocate", later)
    assert seen in differing("smartnic")


@pytest.mark.parametrize(
    ("cycles", "seen"), [("_TO_SWITCH", "switch_pass"), ("_RETURNED", "switch_credit")]
)
def test_a_link_of_switches_that_takes_a_cycle_more_is_seen(cycles, seen, monkeypatch):
    monkeypatch.setattr(switch, cycles, getattr(switch, cycles) + 1)
    assert seen in differing("in_switch")


@pytest.mark.parametrize(
    ("cycles", "seen"), [("load_latency", "switch_load"), ("sum_latency", "switch_detour")]
)
def test_a_unit_of_switches_that_takes_a_cycle_more_is_seen(cycles, seen, monkeypatch):
    allocate = switch.allocate

    def later(*args, **options):
        state = allocate(*args, **options)
        state.c[cycles] += 1
        return state

    monkeypatch.setattr(switch, "allocate", later)
    assert seen in differing("in_switch")
