# SPDX-License-Identifier: Apache-2.0
"""Each parameter of ASTRA-SIM's Table III changes a result, and in the direction that it should.

A system is 2 x 2 x 2 NPUs unless stated; delays are cycles of 1 GHz.
"""

import pytest

from sim.run import run as run_system

TORUS = {"num-npus": 8, "num-packages": 4, "package-rows": 2, "preferred-set-splits": 1}
CYCLE_S = 1e-9
ONE_MB = 1 << 20


def run(size_bytes=ONE_MB, collective="all_reduce", workload=None, **astra):
    """Metrics of one collective (or of *workload*); keys with underscores for hyphens."""
    stated = {key.replace("_", "-"): value for key, value in astra.items()}
    config = {
        "astra": {**TORUS, **stated},
        "workload": workload or {"collective": collective, "size_bytes": size_bytes},
    }
    if not {"num-passes", "num_passes"} & stated.keys():
        config["astra"]["num-passes"] = 1
    return run_system(config).metrics


def time_s(*arguments, **values):
    return run(*arguments, **values)["time_s"]


def text_workload(folder, name, *rows):
    layers = "\n".join(f"{row} 10" for row in rows)
    (folder / f"{name}.txt").write_text(f"DATA\n{len(rows)}\n{layers}\n")
    return str(folder / name)


def layer(name, cycles, size):
    return f"{name} -1 {cycles} NONE 0 {cycles} NONE 0 {cycles} ALLREDUCE {size}"


def run_file(path, **astra):
    stated = {key.replace("_", "-"): value for key, value in astra.items()}
    return run_system({"astra": {**TORUS, "DNN-name": path, **stated}}).metrics


def test_1_dnn_name_chooses_the_workload(tmp_path):
    small = text_workload(tmp_path, "small", layer("a", 1000, 4096))
    large = text_workload(tmp_path, "large", layer("a", 5000, 4096))

    # One iteration computes forward and the weight gradient; layer 0 has no input gradient.
    assert run_file(small)["compute_s"] == pytest.approx(2 * 1000 * CYCLE_S)
    assert run_file(large)["compute_s"] == pytest.approx(2 * 5000 * CYCLE_S)


def test_2_num_passes_repeats_the_iteration(tmp_path):
    path = text_workload(tmp_path, "w", layer("a", 1000, 4096), layer("b", 2000, 4096))

    once, thrice = (run_file(path, num_passes=passes) for passes in (1, 3))

    assert thrice["compute_s"] == pytest.approx(3 * once["compute_s"])
    assert thrice["sent_bytes"] == pytest.approx(3 * once["sent_bytes"])
    assert thrice["time_s"] > 2 * once["time_s"]


def test_3_enhanced_algorithm_sends_less_between_packages():
    values = {"tile_link_width": 1600, "package_link_width": 200}

    baseline, enhanced = (run(algorithm=each, **values) for each in ("baseline", "enhanced"))

    # Baseline: an all-reduce in each of three dimensions of two; enhanced halves the last two.
    assert baseline["sent_bytes"] == pytest.approx(3 * ONE_MB, rel=1e-6)
    assert enhanced["sent_bytes"] == pytest.approx((1 + 2 / 2) * ONE_MB, rel=1e-6)
    assert enhanced["time_s"] < 0.7 * baseline["time_s"]


def test_4_more_npus_take_longer_and_send_more():
    small = run(num_npus=8, num_packages=8, package_rows=1)
    large = run(num_npus=16, num_packages=16, package_rows=1)

    assert small["sent_bytes"] == pytest.approx(2 * 7 / 8 * ONE_MB, rel=1e-6)
    assert large["sent_bytes"] == pytest.approx(2 * 15 / 16 * ONE_MB, rel=1e-6)
    assert large["time_s"] > small["time_s"]


def test_5_more_packages_move_traffic_to_their_slower_links():
    few = time_s(num_npus=16, num_packages=4, package_rows=2)
    many = time_s(num_npus=16, num_packages=16, package_rows=2)

    assert many > few


def test_6_package_rows_make_a_torus_of_a_ring():
    ring, torus = (run(4096, num_npus=64, num_packages=64, package_rows=rows) for rows in (1, 8))

    # ASTRA-SIM 5.3, Fig. 10: 126/64 N and 28/8 N per node.
    assert ring["sent_bytes"] == pytest.approx(126 / 64 * 4096)
    assert torus["sent_bytes"] == pytest.approx(28 / 8 * 4096)
    # 126 steps against 28, and a small message is all latency.
    assert ring["time_s"] > 3 * torus["time_s"]


def test_7_lifo_serves_first_layers_first(tmp_path):
    # The gradient of the last layer is large and early, that of the first small and late, but
    # awaited before the next forward pass can start, in which the second layer takes long.
    quiet = "mid -1 50000 NONE 0 10 NONE 0 10 NONE 0"
    first, last = layer("first", 10, 8192), layer("last", 10, 1 << 22)
    path = text_workload(tmp_path, "w", first, quiet, last)
    values = {"num_passes": 2, "preferred_set_splits": 64, "injection_policy": "normal"}

    lifo, fifo = (run_file(path, scheduling_policy=each, **values) for each in ("LIFO", "FIFO"))

    assert lifo["exposed_s"] < 0.8 * fifo["exposed_s"]
    assert lifo["compute_s"] == fifo["compute_s"]


def test_8_switches_are_better_for_all_to_all_and_rings_for_large_all_reduces():
    """ASTRA-SIM, Fig. 9: eight packages with four links to each neighbour, or seven switches."""
    torus = {"num_npus": 8, "num_packages": 8, "package_rows": 1, "horizontal_rings": 4}
    switch = {
        "num_npus": 8,
        "num_packages": 8,
        "package_rows": 1,
        "topology": "AllToAll",
        "global_switches": 7,
    }
    splits = {"preferred_set_splits": 56}

    def ratio(collective, size):
        a = time_s(size, collective, **torus, **splits)
        return a / time_s(size, collective, **switch, **splits)

    assert ratio("all_to_all", ONE_MB) > 1
    assert ratio("all_reduce", 64 * ONE_MB) < 1


@pytest.mark.parametrize(
    ("number", "key", "shape"),
    [
        (9, "local-rings", {"num-npus": 4, "num-packages": 1, "package-rows": 1}),
        (10, "vertical-rings", {"num-npus": 4, "num-packages": 4, "package-rows": 4}),
        (11, "horizontal-rings", {"num-npus": 4, "num-packages": 4, "package-rows": 1}),
        (
            12,
            "global-switches",
            {"num-npus": 4, "num-packages": 4, "package-rows": 1, "topology": "AllToAll"},
        ),
    ],
)
def test_9_to_12_twice_the_rings_or_switches_halve_the_time_of_a_large_collective(
    number, key, shape
):
    values = {**shape, "preferred-set-splits": 16}

    one, two = (time_s(64 * ONE_MB, **values, **{key: count}) for count in (1, 2))

    assert one / two == pytest.approx(2, rel=0.05)


RING = {"num_npus": 8, "num_packages": 8, "package_rows": 1}
STEPS = 14  # of an all-reduce round eight nodes


def test_13_endpoint_delay_is_added_to_every_step():
    short, long = (time_s(8, **RING, endpoint_delay=delay) for delay in (10, 110))

    assert long - short == pytest.approx(STEPS * 100 * CYCLE_S, rel=1e-6)


def test_14_hardware_routing_spares_the_relaying_of_endpoints():
    values = {**RING, "endpoint_delay": 500}

    software, hardware = (
        run(4096, "all_to_all", **values, packet_routing=each) for each in ("software", "hardware")
    )

    # The longest way, of four hops, has three relays of 500 cycles more.
    difference = software["time_s"] - hardware["time_s"]
    assert difference == pytest.approx(3 * 500 * CYCLE_S, rel=1e-6)
    assert software["sent_bytes"] == hardware["sent_bytes"]


def test_15_aggressive_injection_hides_latency():
    values = {**RING, "preferred_set_splits": 64, "package_link_latency": 5000}

    normal, aggressive = (
        time_s(**values, injection_policy=each) for each in ("normal", "aggressive")
    )

    assert aggressive < 0.7 * normal


def test_16_splits_pipeline_the_dimensions():
    whole, split = (time_s(16 * ONE_MB, preferred_set_splits=count) for count in (4, 32))

    assert split < 0.9 * whole


LOCAL = {"num_npus": 8, "num_packages": 1, "package_rows": 1}


@pytest.mark.parametrize(
    ("number", "key", "place", "values", "ratio"),
    [
        (17, "local-link-efficiency", LOCAL, (0.45, 0.9), 2),
        (18, "package-link-efficiency", RING, (0.45, 0.9), 2),
        (22, "tile-link-width", LOCAL, (64, 256), 4),
        (23, "package-link-width", RING, (64, 256), 4),
    ],
)
def test_17_18_22_23_time_of_a_large_collective_follows_the_rate_of_links(
    number, key, place, values, ratio
):
    slow, fast = (time_s(64 * ONE_MB, **place, **{key: value}) for value in values)

    assert slow / fast == pytest.approx(ratio, rel=0.02)


@pytest.mark.parametrize(
    ("number", "key", "place", "other"),
    [
        (25, "router-latency", RING, LOCAL),
        (26, "local-link-latency", LOCAL, RING),
        (27, "package-link-latency", RING, LOCAL),
    ],
)
def test_25_to_27_latency_is_added_to_every_hop(number, key, place, other):
    short, long = (time_s(8, **place, **{key: value}) for value in (100, 300))

    assert long - short == pytest.approx(STEPS * 200 * CYCLE_S, rel=1e-6)
    if number != 25:
        assert time_s(8, **other, **{key: 100}) == time_s(8, **other, **{key: 300})


# Links of 8 B a cycle; 14 steps round eight NPUs, between packages or inside one.
PACKAGES = {**RING, "package_link_width": 64}
INSIDE = {**LOCAL, "tile_link_width": 64}


def test_19_flits_that_do_not_divide_a_packet_waste_link_time():
    """A packet of 256 B is two flits of 128 B or two of 192 B."""
    exact, wide = (time_s(**PACKAGES, flit_width=width) for width in (1024, 1536))

    assert wide / exact == pytest.approx(1.5, rel=0.01)


@pytest.mark.parametrize(
    ("number", "key", "place", "other"),
    [
        (20, "local-packet-size", INSIDE, PACKAGES),
        (21, "package-packet-size", PACKAGES, INSIDE),
    ],
)
def test_20_21_packets_of_part_of_a_flit_waste_link_time(number, key, place, other):
    """Flits of 128 B: a packet of 512 B fills four of them, one of 96 B takes a whole one."""
    small, large = (time_s(**place, **{key: size}) for size in (96, 512))
    unmoved = [time_s(**other, **{key: size}) for size in (96, 512)]

    assert small / large == pytest.approx(128 / 96, rel=0.01)
    assert unmoved[0] == unmoved[1]


def test_24_virtual_channels_let_packets_follow_each_other():
    """One VC with room for one packet is held for it, 32 cycles at 94 %, and the round trip of its
    link, 401."""
    one, many = (time_s(**PACKAGES, vcs_per_vnet=vcs, buffers_per_vc=2) for vcs in (1, 50))

    assert one / many == pytest.approx((34 + 401) / 34, rel=0.02)


def test_28_buffers_let_flits_follow_each_other():
    """A flit of 128 B is 17 cycles at 94 %; a buffer of one makes it wait for the last credit."""
    values = {**PACKAGES, "package_packet_size": 4096, "vcs_per_vnet": 4}

    one, many = (time_s(4 * ONE_MB, **values, buffers_per_vc=flits) for flits in (1, 100))

    # Four packets take turns on the link, each flit with a round trip of its own.
    assert one / many == pytest.approx((17 + 401) / 17 / 4, rel=0.05)


def test_packets_with_room_for_all_take_the_time_of_whole_messages():
    """The parameters of packets, if stated, make the network one of packets."""
    whole = time_s(**PACKAGES)
    cut = time_s(**PACKAGES, flit_width=1024, package_packet_size=1024)

    assert cut == pytest.approx(whole, rel=1e-3)


def test_granularity_of_messages_may_be_asked_for():
    config = {
        "astra": {"num-npus": 8, "vcs-per-vnet": 1, "num-passes": 1},
        "workload": {"collective": "all_reduce", "size_bytes": ONE_MB},
    }
    packets = run_system(config)
    messages = run_system({**config, "network": {"granularity": "message"}})

    assert packets.description.network.packets.vcs_per_vnet == 1
    assert messages.description.network.packets is None
    assert packets.metrics["time_s"] > messages.metrics["time_s"]
