# SPDX-License-Identifier: Apache-2.0
"""An engine that breaks a rule of its ports is stopped, with the place and the cycle."""

import re

import numpy as np
import pytest

from sim.rtl.harness.specs import (
    HeaderFault,
    LinkDirection,
    MemorySpec,
    NodeSpec,
    PacketFault,
    PayloadFault,
)
from sim.rtl.harness.system import ProtocolError, System


def error_of(system):
    with pytest.raises(ProtocolError) as caught:
        system.run(max_cycles=20_000)
    assert re.match(r"node \d (mem 0|link \d) cycle \d+: ", str(caught.value))
    return str(caught.value)


@pytest.mark.parametrize(
    "bug, text",
    [
        ("tx_valid_falls", "link 0 .*: tx valid fell before the transfer was accepted"),
        ("tx_payload_changes", "link 0 .*: tx payload changed while it was stalled"),
        ("early_wlast", "mem 0 .*: W last is set with 2 beats of the burst left"),
        ("aw_address_moves", "mem 0 .*: AW payload changed while it was stalled"),
        ("narrow_size", "AW burst of 4 beats at 0x8000: size is not the bus width of 16 bytes"),
    ],
)
def test_broken_rule_is_named(ring_of, bug, text):
    assert re.search(text, error_of(ring_of(2, 20, bug=bug, stalls=0.4, seed=2)))


def test_hole_in_tkeep_is_named(ring_of):
    text = error_of(ring_of(2, 3, bus_bytes=64, bug="keep_has_hole"))

    assert re.search("link 0 .*: tx tkeep 0xe is not a prefix of at least one flit$", text)


def test_beat_to_a_receiver_that_is_not_ready_is_an_overrun(ring_of):
    text = error_of(ring_of(2, 20, bug="ignores_credits", memory={"stall_probability": 0.8}))

    assert re.search(r"node \d link 1 cycle \d+: rx overrun", text)


@pytest.mark.parametrize(
    "source, text",
    [
        (8, "AR burst of 4 beats at 0x8 is not aligned to 16 bytes"),
        (4080, "AR burst of 4 beats at 0xff0 crosses a 4 KiB boundary"),
    ],
)
def test_bad_burst_is_named(ring_of, source, text):
    assert text in error_of(ring_of(2, 1, source=source))


@pytest.mark.parametrize("window_cycles, threads", [(1, 1), (3, 2), (5, 1), (5, 3)])
def test_the_earliest_error_is_reported_whatever_the_window(ring_of, window_cycles, threads):
    # All three nodes break the rule, node 1 first, within one window of five cycles.
    system = ring_of(3, 1, source=8, start_cycles=[3, 0, 2], window_cycles=window_cycles,
                     threads=threads)

    assert error_of(system).startswith("node 1 mem 0 cycle 16: AR burst")


def test_a_broken_system_refuses_to_run_on(ring_of):
    system = ring_of(2, 1, source=8)
    text = error_of(system)

    with pytest.raises(ProtocolError, match="^the system cannot run on: " + re.escape(text)):
        system.run()


@pytest.mark.parametrize("address", [65536, 2**32 - 128])
def test_access_outside_the_memory_is_answered_with_decerr(ring_of, registers, address):
    system = ring_of(2, 2, target=address, wait=False)
    system.nodes[0].memory[32768:] = 85
    for node in system.nodes:
        node.wait_irq()
    statuses = [node.read(registers.status) for node in system.nodes]

    system.run(drain=False)

    assert [status.value >> 8 for status in statuses] == [1, 1]
    assert system.memory_activity(0, 0).decode_errors == 2
    assert system.memory_activity(0, 0).written_bytes == 0
    assert (system.nodes[0].memory[32768:] == 85).all()


def test_read_outside_the_memory_gives_zeros_and_counts_every_beat(ring_of):
    system = ring_of(2, 2, source=65536 - 64, memory={"base_address": 0})
    system.nodes[0].memory[65536 - 64 :] = 1

    system.run()

    assert system.memory_activity(0, 0).decode_errors == 4
    assert (system.nodes[1].memory[32768:32832] == 1).all()
    assert (system.nodes[1].memory[32832:32896] == 0).all()


def test_base_address_moves_the_memory(ring_of, payload_arrived):
    base = 0x4000_0000
    system = ring_of(2, 5, memory={"base_address": base}, source=base, target=base + 32768)

    system.run()

    assert payload_arrived(system, 320)


def test_only_the_chosen_header_is_corrupted(ring_of, registers):
    faults = [HeaderFault(node=0, port=0, packet=3, bits=(127, 0))]
    system = ring_of(2, 8, faults=faults)
    dropped = [node.read(registers.dropped) for node in system.nodes]

    system.run()

    sent, stored = system.nodes[0].memory, system.nodes[1].memory[32768:]
    assert [ticket.value for ticket in dropped] == [0, 1]
    assert (stored[:192] == sent[:192]).all()
    assert (stored[192:448] == sent[256:512]).all()
    assert (stored[448:] == 0).all()


def test_only_the_chosen_payload_is_changed(ring_of):
    # A packet has four flits of payload.
    system = ring_of(2, 8, faults=[PayloadFault(node=0, port=0, packet=3, bits=(0, 137, 512))])

    system.run()

    wanted = system.nodes[0].memory[:512].copy()
    wanted[192] ^= 1
    wanted[192 + 17] ^= 2
    assert (system.nodes[1].memory[32768 : 32768 + 512] == wanted).all()
    assert system.struck(0, 0) == 1


def run_for(system, cycles):
    for node in system.nodes:
        node.delay(cycles)
    system.run(drain=False)


@pytest.mark.parametrize("stalls", [0.0, 0.3])
def test_only_the_chosen_packets_are_lost(ring_of, stalls):
    fault = PacketFault(node=0, port=0, packet=3, packets=2)
    system = ring_of(2, 8, faults=[fault], wait=False, stalls=stalls)

    run_for(system, 2000)

    sent, stored = system.nodes[0].memory, system.nodes[1].memory[32768:]
    assert system.struck(0, 0) == 2
    assert (stored[:192] == sent[:192]).all()
    assert (stored[192:384] == sent[320:512]).all()
    assert (stored[384:] == 0).all()


@pytest.mark.parametrize("stalls", [0.0, 0.3])
def test_only_the_chosen_packet_comes_twice_in_a_row(ring_of, stalls):
    fault = PacketFault(node=0, port=0, packet=3, repeat=True)
    system = ring_of(2, 8, faults=[fault], wait=False, stalls=stalls)

    run_for(system, 2000)

    sent, stored = system.nodes[0].memory, system.nodes[1].memory[32768:]
    assert system.struck(0, 0) == 1
    assert (stored[:256] == sent[:256]).all()
    assert (stored[256:576] == sent[192:512]).all()
    assert (stored[576:] == 0).all()


BLOCK = slice(32768, 32768 + 64 * 400)


def after_bad_wires(ring_of, *, flits=5, **options):
    """400 packets of every node over wires that damage half of them."""
    wires = {"damage_probability": 0.5, "packet_flits": flits}
    system = ring_of(2, 400, wires=wires, wait=False, **options)
    run_for(system, 12_000)
    return system


@pytest.mark.parametrize("bus_bytes", [16, 64])
def test_wires_damage_as_many_packets_as_they_should(ring_of, registers, bus_bytes):
    system = after_bad_wires(ring_of, bus_bytes=bus_bytes)

    for node in system.nodes:
        other = system.nodes[1 - node.number]
        dropped = other.read(registers.dropped)
        system.run(drain=False)
        met = system.met(node.number, 0)
        # Half of them in the header, which is seen.
        assert 160 < met["damaged"] < 240 and met["lost"] == met["repeated"] == 0
        assert 0.35 < dropped.value / met["damaged"] < 0.65
        assert system.struck(node.number, 0) == met["damaged"]
        assert system.met(node.number, 1) == dict.fromkeys(met, 0)  # good, the other way


def test_packets_without_the_flit_that_is_hit_are_spared(ring_of):
    """Of twelve flits that may be hit behind a header four are there."""
    spared, all_there = (after_bad_wires(ring_of, flits=n).met(0, 0)["damaged"] for n in (13, 5))

    # A half in the header, a third of the other half.
    assert 0.55 < spared / all_there < 0.8


def test_bits_of_what_follows_a_header_are_inverted(ring_of, registers):
    system = after_bad_wires(ring_of)
    sent, stored = (system.nodes[k].memory for k in (0, 1))
    count = system.nodes[1].read(registers.dropped)
    system.run(drain=False)
    hit = system.met(0, 0)["damaged"] - count.value
    # Packets that were dropped are not there, so what was stored is compared with any that was
    # sent: one that is like none was damaged, in one to three bits.
    packets = sent[: 64 * 400].reshape(400, 64)
    found = stored[BLOCK].reshape(400, 64)[: 400 - count.value]
    bits = np.unpackbits(packets ^ 0, axis=1).astype(np.int16)
    apart = np.array([
        np.abs(bits - row).sum(axis=1).min() for row in np.unpackbits(found, axis=1).astype("i2")
    ])
    assert (apart <= 3).all() and (apart > 0).sum() == hit > 50
    assert {1, 2, 3} <= set(apart.tolist())


@pytest.mark.parametrize("options", [
    {"window_cycles": 1}, {"threads": 2}, {"lanes": 2}, {"stalls": 0.2},
], ids=str)
def test_what_wires_do_depends_on_the_seed_alone(ring_of, options):
    one, other = after_bad_wires(ring_of), after_bad_wires(ring_of, **options)
    different = after_bad_wires(ring_of, seed=9)

    for node in (0, 1):
        assert one.met(node, 0) == other.met(node, 0) != different.met(node, 0)
        stored = [system.nodes[node].memory[BLOCK] for system in (one, other, different)]
        assert (stored[0] == stored[1]).all() and (stored[0] != stored[2]).any()


def test_wires_lose_and_repeat(ring_of):
    """Credits are lost with packets, so only the first few are sent."""
    lossy = ring_of(2, 50, wires={"loss_probability": 1.0}, wait=False)
    run_for(lossy, 2000)
    assert lossy.met(0, 0) == {"damaged": 0, "lost": 3, "repeated": 0}
    assert not lossy.nodes[1].memory[32768:].any()

    echo = ring_of(2, 3, wires={"repetition_probability": 1.0}, wait=False)
    run_for(echo, 2000)
    assert echo.met(0, 0) == {"damaged": 0, "lost": 0, "repeated": 3}
    sent, stored = echo.nodes[0].memory, echo.nodes[1].memory[32768:]
    assert (stored[:192] == sent[[*range(64), *range(128)]]).all()  # the first came twice


@pytest.mark.parametrize("bad, message", [
    ({"loss_probability": 1.5}, "loss_probability must be from 0 to 1, not 1.5"),
    ({"damage_probability": -0.1}, "damage_probability must be from 0 to 1, not -0.1"),
    ({"loss_probability": 0.6, "damage_probability": 0.6}, "must be at most 1, not 1.2"),
    ({"packet_flits": 0}, "packet_flits must be at least 1, not 0"),
])
def test_wires_that_cannot_be_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        LinkDirection(**bad)


@pytest.mark.parametrize("beat", [0, 9, 31])
def test_a_beat_that_a_memory_refuses_reads_as_zeros(ring_of, beat):
    system = ring_of(2, 8)
    system.nodes[0].fail_memory(16 * beat + 5, 3, writes=False)

    system.run()

    sent, stored = system.nodes[0].memory[:512].copy(), system.nodes[1].memory[32768:]
    sent[16 * beat : 16 * beat + 16] = 0
    assert (stored[:512] == sent).all()
    assert system.memory_activity(0, 0).decode_errors == 0  # it was refused by what is there


@pytest.mark.parametrize("beat", [0, 9, 31])
def test_a_beat_that_a_memory_refuses_is_not_written_and_its_burst_fails(
    ring_of, registers, beat
):
    system = ring_of(2, 8, wait=False)
    system.nodes[1].fail_memory(32768 + 16 * beat, 16)
    run_for(system, 2000)
    failed = [node.read(registers.status) for node in system.nodes]

    system.run(drain=False)

    sent, stored = system.nodes[0].memory[:512].copy(), system.nodes[1].memory[32768:]
    sent[16 * beat : 16 * beat + 16] = 0
    assert (stored[:512] == sent).all()
    assert [ticket.value >> 8 for ticket in failed] == [0, 1]


def test_memory_that_has_been_healed_works(ring_of, payload_arrived):
    system = ring_of(2, 8)
    system.nodes[0].fail_memory(0, 512)
    system.nodes[0].heal_memory()

    system.run()

    assert payload_arrived(system, 512)


def test_what_cannot_fail_is_refused(ring_of):
    text = "address must be at least 0 and size_bytes at least 1, not 8 and 0"
    with pytest.raises(ValueError, match=text):
        ring_of(2, 1).nodes[0].fail_memory(8, 0)


def test_an_engine_that_is_reset_alone_starts_again_and_keeps_its_memory(ring_of, registers):
    system = ring_of(2, 8, wait=False)
    run_for(system, 2000)
    system.nodes[1].reset_engine()
    target = [node.read(registers.target) for node in system.nodes]

    system.run(drain=False)

    assert [ticket.value for ticket in target] == [32768 + 512, 0]
    assert (system.nodes[1].memory[32768:33280] == system.nodes[0].memory[:512]).all()


def test_a_port_without_a_link_must_not_send(shift_node, registers):
    spec = NodeSpec(engine=shift_node(16), memory=MemorySpec(size_bytes=4096))
    system = System([spec])
    system.nodes[0].write(registers.send, 1)
    system.nodes[0].write(registers.control, 1)

    assert error_of(system).endswith(": sends, but no link is connected")
