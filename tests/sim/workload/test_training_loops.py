# SPDX-License-Identifier: Apache-2.0
"""Loops of every keyword, against orders and times worked out by hand."""

import pytest

from sim.workload.astra_text import parse, shipped
from sim.workload.graph import CollectiveCall, CollectiveKind, TaskKind, TrainingPhase
from sim.workload.loops import LoopStep, TrainingLayer
from sim.workload.training import Parallelism, SideThread, layers_job, training_job

# Cycles: forward 1, 10; input gradient 100, 1000; weight gradient 10 000, 100 000.
TWO = """{header}
2
a -1 1 {forward} 100 {input} 10000 {weight} 3
b -1 10 {forward} 1000 {input} 100000 {weight} 5
"""
COMPUTE = 1 + 10 + 100 + 1000 + 10_000 + 100_000


def two(header, forward="NONE 0", backward="NONE 0", weight="NONE 0"):
    text = TWO.format(header=header, forward=forward, input=backward, weight=weight)
    return parse(text, name="two", source="two.txt")


def job_of(workload, **options):
    return training_job(workload, **{"shape": (4, 4), "cycle_s": 1.0, **options})


def calls(job):
    return [
        (task.name, task.call.dimensions, task.call.policy, task.call.priority)
        for task in job.graphs[0].tasks
        if task.call is not None
    ]


def test_data_parallel_order(story):
    job = job_of(two("DATA", weight="ALLREDUCE 8"))

    one = [
        ("a forward", []),
        ("b forward", ["a forward"]),
        ("b weight gradient", ["b forward"]),
        ("b weight gradient all_reduce", ["b weight gradient"]),
        ("b input gradient", ["b weight gradient"]),
        ("a weight gradient", ["b input gradient"]),
        ("a weight gradient all_reduce", ["a weight gradient"]),
    ]
    assert story(job)[:7] == one
    # The second iteration: a layer's forward pass waits for its own gradient of the first.
    assert story(job)[7] == (
        "a forward",
        ["a weight gradient", "a weight gradient all_reduce"],
    )
    assert story(job)[8] == ("b forward", ["b weight gradient all_reduce", "a forward"])
    assert len(story(job)) == 14


@pytest.mark.parametrize("collective_s", [0, 500, 1_000_000])
def test_data_parallel_time(finish_s, collective_s):
    job = job_of(two("DATA", weight="ALLREDUCE 8"))

    # The first layer has no input gradient, so an iteration computes 100 cycles less. The gradient
    # of b has 11 000 cycles to hide in and the forward pass of a after that; that of a has none.
    once = COMPUTE - 100
    b_late = max(0, collective_s + 5 - 11_000 - (collective_s + 3) - 1)
    assert finish_s(job, collective_s) == 2 * once + 2 * (collective_s + 3) + b_late


def test_update_passes_after_the_collective_and_is_not_scaled():
    tasks = job_of(
        two("DATA", weight="ALLREDUCE 8"), compute_scale=2.5, comm_scale=1.3, control_cycles=1
    )
    by_name = {task.name: task for task in tasks.graphs[0].tasks}

    assert by_name["a weight gradient all_reduce"].duration_s == 3
    assert by_name["a weight gradient all_reduce"].call.size_bytes == 10  # 10.4, cut
    assert by_name["a forward"].duration_s == 2 + 1  # 2.5, cut, and the loop's own cycle
    assert by_name["b forward"].duration_s == 25 + 1


def test_data_parallel_reaches_everyone_and_ignores_other_passes():
    job = job_of(two("DATA", forward="ALLREDUCE 1", backward="ALLREDUCE 2", weight="ALLREDUCE 8"))

    assert calls(job)[:2] == [
        ("b weight gradient all_reduce", None, None, 0),
        ("a weight gradient all_reduce", None, None, 0),
    ]
    assert len(calls(job)) == 4


def test_model_parallel_order(story):
    job = job_of(
        two("MODEL", forward="ALLGATHER 4", backward="ALLREDUCE 8", weight="ALLREDUCE 9"), passes=1
    )

    assert story(job) == [
        ("a forward", []),
        ("a forward all_gather", ["a forward"]),
        ("b forward", ["a forward", "a forward all_gather"]),
        ("b forward all_gather", ["b forward"]),
        ("b input gradient", ["b forward", "b forward all_gather"]),
        ("b input gradient all_reduce", ["b input gradient"]),
        ("b weight gradient", ["b input gradient"]),
        # No collective of weights, and the next layer waits for the input gradient.
        ("a input gradient", ["b input gradient all_reduce", "b weight gradient"]),
        ("a weight gradient", ["a input gradient"]),
    ]


def test_model_parallel_time(finish_s):
    job = job_of(two("MODEL", forward="ALLGATHER 4", backward="ALLREDUCE 8"), passes=1)

    # Both forward collectives are waited for; the input gradient's hides behind 100 000 cycles.
    assert finish_s(job, 50) == COMPUTE + (50 + 3) + (50 + 5)
    assert finish_s(job, 100_050) == COMPUTE + 2 * 100_050 + 3 + 5 + (100_050 + 5 - 100_000)


@pytest.mark.parametrize(
    ("header", "model", "data"),
    [
        ("HYBRID_DATA_MODEL", (0,), (1, 2)),
        ("HYBRID_MODEL_DATA", (1, 2), (0,)),
        ("HYBRID_TRANSFORMER model_parallel_NPU_group: 8", (0, 1), (2,)),
        ("HYBRID_TRANSFORMER model_parallel_NPU_group: 2", (0,), (1, 2)),
    ],
)
def test_hybrid_schemes_reach_their_dimensions_in_their_order(header, model, data):
    job = job_of(
        two(header, forward="ALLGATHER 4", backward="ALLREDUCE 8", weight="ALLREDUCE 9"),
        passes=1,
        shape=(2, 4, 4),
    )

    wanted = [
        ("a forward all_gather", model, None, 0),
        ("b forward all_gather", model, None, 0),
        ("b input gradient all_reduce", model, "lifo", 0),
        ("b weight gradient all_reduce", data, "fifo", 0),
        ("a input gradient all_reduce", model, "lifo", 0),
        ("a weight gradient all_reduce", data, "fifo", 0),
    ]
    if not header.startswith("HYBRID_TRANSFORMER"):
        del wanted[4]  # only the Transformer loop communicates the first layer's input gradient
    assert calls(job) == wanted


def test_group_of_part_of_a_dimension_splits_it():
    job = job_of(
        two(
            "HYBRID_TRANSFORMER model_parallel_NPU_group: 4",
            forward="ALLREDUCE 4",
            weight="ALLREDUCE 9",
        ),
        shape=(8, 8, 8),
    )

    assert job.shape == (4, 2, 8, 8)
    assert {dimensions for _, dimensions, _, _ in calls(job)} == {(0,), (1, 2, 3)}


@pytest.mark.parametrize(
    ("group", "shape", "reason"),
    [
        (3, (4, 4), "must divide the 16 NPUs of 4 x 4, not 3"),
        (32, (4, 4), "must divide the 16 NPUs of 4 x 4, not 32"),
        (4, (6, 2), "model_parallel_npus 4 must cover dimension 0 of 6 x 2 whole or in equal"),
        (8, (6, 4), "model_parallel_npus 8 must be a product of the first dimensions of 6 x 4"),
        (0, (4, 4), "must divide"),
    ],
)
def test_groups_that_fit_no_block_are_refused(group, shape, reason):
    with pytest.raises(ValueError, match=reason):
        job_of(shipped("transformer"), model_parallel_npus=group, shape=shape)


def test_group_of_one_is_data_parallel_and_of_all_is_model_parallel():
    workload = two("DATA", forward="ALLREDUCE 4", weight="ALLREDUCE 9")
    keyword = {"parallelism": "HYBRID_TRANSFORMER"}

    alone = calls(job_of(workload, **keyword, model_parallel_npus=1, passes=1))
    everyone = calls(job_of(workload, **keyword, model_parallel_npus=16, passes=1))

    assert [name for name, *_ in alone] == [
        "b weight gradient all_reduce",
        "a weight gradient all_reduce",
    ]
    assert [name for name, *_ in everyone] == ["a forward all_reduce", "b forward all_reduce"]
    assert {dimensions for _, dimensions, _, _ in alone + everyone} == {None}


def test_recomputation_runs_from_the_checkpoint_to_just_below_the_layer(story):
    rows = "".join(f"l{number} -1 1 NONE 0 1 NONE 0 1 NONE 0 0\n" for number in range(4))
    header = (
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 "
        "checkpoints: 2 0 2 checkpoint_initiates: 1 2"
    )
    job = job_of(parse(f"{header}\n4\n{rows}", name="w", source="w"), passes=1)

    assert [name for name, _ in story(job)][4:] == [
        "l3 input gradient",
        "l3 weight gradient",
        "l0 forward",
        "l1 forward",
        "l2 input gradient",
        "l2 weight gradient",
        "l1 input gradient",
        "l1 weight gradient",
        "l0 input gradient",
        "l0 weight gradient",
    ]


def test_recomputation_in_the_public_file_runs_both_blocks_again():
    job = job_of(shipped("transformer-recompute"), passes=1)
    forward = [
        task.layer
        for task in job.graphs[0].tasks
        if task.kind is TaskKind.COMPUTE and task.phase is TrainingPhase.FORWARD
    ]

    assert forward == [*range(21), *range(11, 19), *range(2, 10)]


def test_a_recomputation_without_a_checkpoint_below_is_refused():
    scheme = Parallelism(
        keyword="HYBRID_TRANSFORMER_FWD_IN_BCKWD",
        model_parallel_npus=1,
        checkpoints=(2,),
        recomputed_before=(2,),
    )

    with pytest.raises(ValueError, match=r"names layer 2; .* above one of the checkpoints \[2\]"):
        scheme.recomputations(4)


DLRM = """HYBRID_DLRM 1
4
emb -1 10 ALLTOALL 64 20 ALLTOALL 64 30 NONE 0 0
bot -1 1 NONE 0 2 NONE 0 3 ALLREDUCE 8 0
top0 -1 100 NONE 0 200 NONE 0 300 ALLREDUCE 8 0
top1 -1 1000 NONE 0 2000 NONE 0 3000 ALLREDUCE 8 0
"""
DLRM_COMPUTE = 10 + 1 + 100 + 1000 + 3000 + 2000 + 300 + 200 + 3 + 2 + 30


def dlrm(header="HYBRID_DLRM 1"):
    return parse(DLRM.replace("HYBRID_DLRM 1", header), name="dlrm", source="dlrm.txt")


def test_dlrm_order(story):
    job = job_of(dlrm())

    assert story(job)[:17] == [
        ("emb forward", []),
        ("emb forward all_to_all", ["emb forward"]),
        ("bot forward", ["emb forward"]),
        ("top0 forward", ["emb forward all_to_all", "bot forward"]),
        ("top1 forward", ["top0 forward"]),
        ("top1 weight gradient", ["top1 forward"]),
        ("top1 weight gradient all_reduce", ["top1 weight gradient"]),
        ("top1 input gradient", ["top1 weight gradient"]),
        ("top0 weight gradient", ["top1 input gradient"]),
        ("top0 weight gradient all_reduce", ["top0 weight gradient"]),
        ("top0 input gradient", ["top0 weight gradient"]),
        # The layer above the last bottom layer starts the gradient's way to the embedding.
        ("emb input gradient all_to_all", ["top0 input gradient"]),
        ("bot weight gradient", ["top0 input gradient"]),
        ("bot weight gradient all_reduce", ["bot weight gradient"]),
        ("bot input gradient", ["bot weight gradient"]),
        ("emb weight gradient", ["bot input gradient"]),
        # The iteration ends when the gradient has reached the embedding.
        ("emb forward", ["emb input gradient all_to_all", "emb weight gradient"]),
    ]
    assert [priority for name, _, _, priority in calls(job) if "all_to_all" in name] == [1] * 4
    assert {priority for name, _, _, priority in calls(job) if "all_reduce" in name} == {0}


def test_dlrm_time(finish_s):
    # Exposed: 50 cycles of all-to-all but 1 of the bottom layer, forward; 50 but the 35 of bottom
    # layer and embedding, backward. The last to end is the bottom layer's all-reduce, which starts
    # 32 cycles before the last computation ends.
    assert finish_s(job_of(dlrm(), passes=1), 50) == DLRM_COMPUTE + 49 + 18
    assert finish_s(job_of(dlrm(), passes=2), 50) == 2 * (DLRM_COMPUTE + 49) + 15 + 18


def test_enhanced_dlrm_does_not_wait_for_the_gradient(story):
    job = job_of(dlrm("HYBRID_DLRM_ENHANCED 1"))

    assert story(job)[16] == ("emb forward", ["emb weight gradient"])


def test_without_overlap_weight_gradients_go_together_at_the_end(story):
    job = job_of(two("DATA", weight="ALLREDUCE 8"), overlap=False)
    names = [name for name, _ in story(job)]

    assert names.count("fused all_reduce") == 2
    assert story(job)[5] == ("fused all_reduce", ["a weight gradient"])
    assert story(job)[6] == ("a forward", ["a weight gradient", "fused all_reduce"])
    fused = job.graphs[0].tasks[5]
    assert (fused.call.size_bytes, fused.duration_s) == (16, 3 + 5)
    assert fused.phase is TrainingPhase.WEIGHT_GRADIENT


def test_without_overlap_nothing_hides(finish_s):
    data = job_of(two("DATA", weight="ALLREDUCE 8"), overlap=False)
    hybrid = job_of(
        two(
            "HYBRID_TRANSFORMER model_parallel_NPU_group: 4",
            backward="ALLREDUCE 8",
            weight="ALLREDUCE 9",
        ),
        overlap=False,
        passes=1,
    )

    assert finish_s(data, 50) == 2 * (COMPUTE - 100 + 50 + 8)
    assert finish_s(hybrid, 50) == COMPUTE + 3 * 50 + 2 * 8


def test_dlrm_without_overlap_waits_for_each_exchange_and_updates_last(story, finish_s):
    job = job_of(dlrm(), overlap=False, passes=1)

    assert story(job)[2] == ("bot forward", ["emb forward", "emb forward all_to_all"])
    assert story(job)[-3:] == [
        ("emb input gradient all_to_all", ["bot input gradient"]),
        ("fused all_reduce", ["bot input gradient"]),
        (
            "emb weight gradient",
            ["bot input gradient", "emb input gradient all_to_all", "fused all_reduce"],
        ),
    ]
    assert finish_s(job, 50) == DLRM_COMPUTE + 50 + 50


def side_job(passes, overlap=True, lookup_s=700.0, update_s=800.0):
    def step(seconds, kind=None):
        return LoopStep(duration_s=seconds, collective=kind, size_bytes=8 if kind else 0)

    exchange, reduce = CollectiveKind.ALL_TO_ALL, CollectiveKind.ALL_REDUCE
    layers = [
        TrainingLayer(
            name="emb",
            forward=step(10.0, exchange),
            input_gradient=step(0.0, exchange),
            weight_gradient=step(30.0),
        ),
        *(
            TrainingLayer(
                name=name,
                forward=step(forward),
                input_gradient=step(2 * forward),
                weight_gradient=step(3 * forward, reduce),
            )
            for name, forward in (("bot", 1.0), ("top", 100.0))
        ),
    ]
    scheme = Parallelism(keyword="HYBRID_DLRM", last_bottom=1)
    side = SideThread(lookup_s=lookup_s, update_s=update_s)
    return layers_job("dlrm", layers, scheme, shape=(4,), passes=passes, overlap=overlap, side=side)


def test_side_thread_looks_up_the_next_and_updates_the_previous_iteration(story):
    tasks = story(side_job(2))

    assert tasks[:3] == [
        ("emb forward", []),
        ("emb forward all_to_all", ["emb forward"]),
        ("emb weight gradient", ["emb forward"]),
    ]
    # The top layer of the first iteration finds its vectors there.
    assert tasks[4] == ("top forward", ["bot forward"])
    second = tasks[12:]
    assert second[0] == ("emb forward", ["emb weight gradient", "bot input gradient"])
    assert second[2] == ("emb weight gradient", ["emb input gradient all_to_all", "emb forward"])
    assert second[4] == (
        "top forward",
        ["emb forward all_to_all", "top weight gradient all_reduce", "bot forward"],
    )


def test_side_thread_takes_the_embedding_off_the_critical_path(finish_s):
    iteration = 101 * 6
    short = side_job(3, lookup_s=100.0, update_s=100.0)
    kinds = [task.kind for task in short.graphs[0].tasks if task.name.startswith("emb ")]

    # Gradients of the bottom layer are exposed; the embedding is not while it is shorter than the
    # rest, and sets the pace when it is longer.
    assert finish_s(short, 5.0) == 3 * iteration + 2 * (5 - 2) + (5 - 2)
    assert finish_s(side_job(3), 5.0) > 2 * 1500
    assert TaskKind.COMPUTE not in kinds


def test_side_thread_needs_overlap():
    with pytest.raises(ValueError, match="side needs overlap"):
        side_job(1, overlap=False)


def test_inference_runs_forward_and_waits(story, finish_s):
    job = job_of(two("DISTRIBUTED_INFERENCE", forward="ALLGATHER 4", weight="ALLREDUCE 9"))

    assert [name for name, _ in story(job)] == [
        "a forward",
        "a forward all_gather",
        "b forward",
        "b forward all_gather",
    ] * 2
    assert finish_s(job, 50) == 2 * (11 + 2 * 50 + 3 + 5)


def test_micro_starts_all_passes_at_once_without_computing(story):
    job = job_of(shipped("micro-all-reduce"), passes=3)

    assert story(job) == [("conv1 weight gradient all_reduce", [])] * 3
    assert job.graphs[0].tasks[0].call.size_bytes == 1048576


def test_customized_layers_reach_what_their_own_keyword_says():
    job = job_of(shipped("mlp-customized"), passes=1, shape=(2, 4, 4))
    reached = {
        name.split()[0][-1] + " " + " ".join(name.split()[1:]): dimensions
        for name, dimensions, _, _ in calls(job)
    }

    assert reached["0 forward all_gather"] == (0,)  # HYBRID_DATA_MODEL
    assert reached["0 weight gradient all_reduce"] == (1, 2)
    assert reached["1 forward all_gather"] == (1, 2)  # HYBRID_MODEL_DATA
    assert reached["1 weight gradient all_reduce"] == (0,)
    assert reached["2 weight gradient all_reduce"] is None  # DATA
    assert reached["3 forward all_gather"] is None  # MODEL
    assert "0 input gradient reduce_scatter" not in reached


def test_customized_layers_cannot_be_split_without_a_group():
    text = two("DATA", weight="ALLREDUCE 8")

    with pytest.raises(
        ValueError, match=r"layer 'a': parallelism must be one of DATA, .* not None"
    ):
        job_of(text, parallelism="HYBRID_CUSTOMIZED")


@pytest.mark.parametrize(
    ("name", "options", "compute_cycles"),
    [
        # Input gradient of the first layer is not computed by the DATA and DLRM loops.
        ("resnet50", {}, 380038 + 377463 + 337813 - 12864),
        ("dlrm", {}, 19020 + 19014 + 13644 - 300),
        ("transformer", {}, 199371180 + 186727713 + 162843649),
        ("mlp-model", {}, 78883 + 78883 + 37440),
        ("libra-dlrm", {"parallelism": "DATA"}, 1399259 + 980128 + 979838 - 300),
    ],
)
def test_an_iteration_of_a_public_file_computes_its_totals(name, options, compute_cycles):
    job = job_of(shipped(name), passes=1, **options)

    assert sum(
        task.duration_s for task in job.graphs[0].tasks if task.kind is TaskKind.COMPUTE
    ) == pytest.approx(compute_cycles)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"shape": ()}, "shape must hold sizes of at least 1"),
        ({"shape": (4, 0)}, "shape must hold sizes of at least 1"),
        ({"passes": 0}, "passes must be at least 1, not 0"),
        ({"compute_scale": 0.0}, "compute_scale must be positive, not 0.0"),
        ({"comm_scale": float("nan")}, "comm_scale must be a finite number below 1e\\+24, not nan"),
        ({"cycle_s": -1e-9}, "cycle_s must be positive"),
        ({"control_cycles": -1}, "control_cycles must be at least 0, not -1"),
        ({"model_parallel_npus": 4}, "model_parallel_npus has no meaning with parallelism DATA"),
        ({"last_bottom": 4}, "last_bottom has no meaning with parallelism DATA"),
        ({"parallelism": "DATTA"}, "parallelism must be one of DATA, .* not 'DATTA'"),
        ({"parallelism": "HYBRID_TRANSFORMER"}, "HYBRID_TRANSFORMER needs model_parallel_npus"),
        ({"parallelism": "HYBRID_DLRM"}, "HYBRID_DLRM needs last_bottom"),
        (
            {"parallelism": "HYBRID_DLRM", "last_bottom": 53},
            r"last_bottom must be 1 \.\. 52, with layers above it, not 53",
        ),
    ],
)
def test_options_without_meaning_are_refused(options, reason):
    with pytest.raises(ValueError, match=reason):
        job_of(shipped("resnet50"), **options)


def test_a_file_without_a_header_needs_the_parallelism():
    with pytest.raises(ValueError, match=r"'libra-gpt3' has no header; parallelism must be given"):
        job_of(shipped("libra-gpt3"))


def test_a_collective_takes_a_dimension_once():
    with pytest.raises(ValueError, match=r"dimensions must be .*, each once, .* not \(0, 0\)"):
        CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=1, dimensions=(0, 0))
