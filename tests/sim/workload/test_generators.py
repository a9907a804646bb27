# SPDX-License-Identifier: Apache-2.0
"""Generated models against what is published about them."""

from importlib.resources import files

import pytest

from sim.workload.astra_text import parse, render, shipped
from sim.workload.compute_model import Roofline, SystolicArray
from sim.workload.gemm_table import read_gemm_table
from sim.workload.generate import dlrm, gnmt, mlp, resnet50
from sim.workload.generate.transformer import Transformer
from sim.workload.graph import CollectiveKind, TaskKind
from sim.workload.load import load_workload, model
from sim.workload.model import model_job, text_workload
from sim.workload.resources import Accelerator
from sim.workload.training import training_job

WHOLE = Roofline(resources=Accelerator().left())


def gradient_bytes(table):
    return sum(layer.weight_gradient.size_bytes for layer in table.layers)


def test_resnet50_has_its_published_size():
    table = resnet50.generate(batch=1)

    assert len(table.layers) == 54
    assert table.parameters == 25_557_032
    assert table.forward_macs == 4_089_184_256  # the usual "4.1 billion"
    assert gradient_bytes(table) == 2 * 25_557_032


def test_resnet50_has_the_layers_of_the_public_tables():
    table = files("sim.workload") / "data" / "scale-sim" / "resnet_weight_grad.csv"
    ours = [layer.forward.work.gemms[0] for layer in resnet50.generate(batch=1).layers]
    theirs = [row.gemm for row in read_gemm_table(str(table))]

    # Theirs are those of the weight gradient: k x n from m. The last one has its sizes in another
    # order, as the fully connected layer has a single row.
    assert sorted((each.k, each.n, each.m) for each in ours[:-1]) == sorted(
        (each.m, each.n, each.k) for each in theirs[:-1]
    )


def test_work_grows_with_the_batch_but_gradients_do_not():
    one, many = resnet50.generate(batch=1), resnet50.generate(batch=32)

    assert many.forward_macs == 32 * one.forward_macs
    assert gradient_bytes(many) == gradient_bytes(one)
    assert gradient_bytes(resnet50.generate(batch=1, dtype_bytes=4)) == 2 * gradient_bytes(one)


def test_backward_products_are_as_large_as_forward_ones():
    table = resnet50.generate(batch=2)

    weight = sum(layer.weight_gradient.work.macs for layer in table.layers)
    backward = sum(layer.input_gradient.work.macs for layer in table.layers)
    assert weight == table.forward_macs
    assert backward == table.forward_macs - table.layers[0].forward.work.macs


def test_fused_normalisation_moves_less_memory():
    apart, fused = resnet50.generate(), resnet50.generate(fused=True)

    assert fused.layers[0].forward.work.memory_bytes < apart.layers[0].forward.work.memory_bytes
    assert fused.forward_macs == apart.forward_macs


def test_libra_dlrm_comes_out_as_its_file_says():
    table = model("dlrm", preset="libra")
    file = shipped("libra-dlrm")

    assert [len(table.layers), gradient_bytes(table)] == [len(file.layers), 114_823_168]
    assert table.layers[0].forward.size_bytes == 4_194_304
    assert table.layers[0].input_gradient.size_bytes == 4_194_304
    # Its MLP times are 60 TFLOP/s throughout, apart from what it cuts off.
    for ours, theirs in zip(table.layers[1:-1], file.layers[1:-1]):
        assert 1e9 * ours.forward.work.flops / 60e12 == pytest.approx(
            theirs.forward.compute_cycles, rel=1e-3
        )


def test_small_dlrm_comes_out_as_its_file_says():
    table = model("dlrm", preset="astra-sim")
    file = shipped("dlrm")

    assert [layer.weight_gradient.size_bytes for layer in table.layers] == [
        layer.weight_gradient.size_bytes for layer in file.layers
    ]
    assert table.layers[0].forward.size_bytes == file.layers[0].forward.size_bytes
    assert table.parallelism.last_bottom == file.options[""][0]


def test_dlrm_interaction_sets_the_inputs_of_the_top():
    sizes = {"tables": 3, "dimension": 4, "bottom": (5, 4), "top": (7, 1), "batch": 2}
    dot = dlrm.generate(**sizes, interaction="dot").layers[2].forward.work.gemms
    concatenate = dlrm.generate(**sizes, interaction="concatenate").layers[2].forward.work.gemms

    assert [(each.m, each.n, each.k, each.count) for each in dot] == [
        (2, 7, 4 + 6, 1),
        (4, 4, 4, 2),
    ]
    assert [(each.m, each.n, each.k) for each in concatenate] == [(2, 7, 16)]


def test_more_lookups_cost_memory_but_no_more_communication():
    few, many = dlrm.generate(lookups=1).layers[0], dlrm.generate(lookups=8).layers[0]

    assert many.forward.work.memory_bytes == few.forward.work.memory_bytes * 9 // 2
    assert many.forward.size_bytes == few.forward.size_bytes
    assert many.weight_gradient.work.memory_bytes > few.weight_gradient.work.memory_bytes


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [
        ("bert-base", 109_482_240),
        ("bert-large", 335_141_888),
        ("gpt2", 124_439_808),
        ("transformer-big", 214_245_376),  # "213 million", with another vocabulary
        ("transformer-base", 63_082_496),  # "65 million", with another vocabulary
    ],
)
def test_transformers_have_their_published_sizes(preset, parameters):
    assert model("transformer", preset=preset).parameters == parameters


@pytest.mark.parametrize(("preset", "billions"), [("gpt3", 175), ("megatron-8.3b", 8.3)])
def test_split_transformers_hold_their_share(preset, billions):
    table = model("transformer", preset=preset)
    npus = table.parallelism.model_parallel_npus

    # Positions, normalisations and half of the biases are held by every NPU.
    assert table.parameters * npus / 1e9 == pytest.approx(billions, rel=0.01)
    assert model("transformer", preset=preset, model_parallel_npus=1).parameters < (
        table.parameters * npus
    )


def test_split_transformer_sums_twice_per_block_and_pass():
    table = model("transformer", preset="gpt2", model_parallel_npus=4, batch=2)
    block = [layer for layer in table.layers if layer.name.startswith("block3_")]
    sums = {"forward": [], "input_gradient": []}
    for which, names in sums.items():
        names += [layer.name for layer in block if getattr(layer, which).collective]

    assert sums == {
        "forward": ["block3_project", "block3_contract"],
        "input_gradient": ["block3_qkv", "block3_expand"],
    }
    size = 2 * 1024 * 768 * 2
    assert {layer.forward.size_bytes for layer in block} == {0, size}
    assert {layer.input_gradient.size_bytes for layer in block} == {0, size}


def test_splitting_divides_the_products():
    whole = model("transformer", preset="gpt2", vocabulary=50256)
    quarter = model("transformer", preset="gpt2", vocabulary=50256, model_parallel_npus=4)

    assert 4 * quarter.forward_macs == whole.forward_macs


def test_transformer_flops_follow_the_rule_of_six():
    # 6 N operations per token and training step, and attention: Kaplan et al., arXiv 2001.08361.
    table = model("transformer", preset="gpt2", batch=1)
    total = sum(
        2 * getattr(layer, name).work.macs
        for layer in table.layers
        for name in ("forward", "input_gradient", "weight_gradient")
    )
    attention = 3 * 2 * 2 * 12 * 1024 * 768
    positions = 1024 * 768

    assert total / 1024 == pytest.approx(6 * (table.parameters - positions) + attention, rel=2e-3)


def test_recomputation_repeats_the_blocks():
    plain, again = (
        model_job(Transformer(layers=2, recompute=each).table(), WHOLE, shape=(4,), passes=1)
        for each in (False, True)
    )
    forward = [
        [task.name for task in job.graphs[0].tasks if task.name.endswith(" forward")]
        for job in (plain, again)
    ]

    assert len(forward[1]) - len(forward[0]) == 2 * 4  # all of a block but its last layer
    assert forward[1][-4:] == [
        f"block0_{part} forward" for part in ("qkv", "attention", "project", "expand")
    ]


def test_gnmt_holds_the_published_layers():
    table = gnmt.generate()
    lstms = [layer for layer in table.layers if layer.name.startswith(("encoder", "decoder"))]

    # 8 + 8 layers, the first of the encoder in both directions.
    assert len(lstms) == 17
    assert lstms[0].parameters == 4 * 1024 * (1024 + 1024 + 1)
    assert lstms[-1].parameters == 4 * 1024 * (2048 + 1024 + 1)
    assert 200e6 < table.parameters < 300e6
    assert gradient_bytes(table) == 2 * table.parameters


def test_gnmt_multiplies_each_weight_once_per_word():
    table = gnmt.generate(batch=2, source_length=3, target_length=5)
    lstm = table.layers[1]
    weights = 4 * 1024 * (1024 + 1024)

    assert lstm.forward.work.macs == 2 * 3 * weights
    assert lstm.input_gradient.work.macs == 2 * 3 * weights
    assert lstm.weight_gradient.work.macs == 2 * 3 * weights
    # The state goes from word to word, so its products cannot be one.
    assert [each.count for each in lstm.forward.work.gemms] == [1, 3]


def test_one_time_step_of_gnmt_has_the_products_of_the_authors_list():
    table = gnmt.generate(
        batch=32, source_length=1, target_length=1, classifier_tokens=51, vocabulary=36548
    )
    path = files("sim.workload") / "data" / "scale-sim" / "gnmt_gemm_mnk.csv"
    listed = {(row.gemm.m, row.gemm.n, row.gemm.k) for row in read_gemm_table(str(path))}

    for layer in table.layers:
        if layer.name.startswith(("encoder", "decoder")):
            outside, state = layer.forward.work.gemms  # one product in the list
            assert (state.count, outside.m, outside.n) == (1, 32, 4096)
            assert (32, 4096, outside.k + state.k) in listed
    (classifier,) = table.layers[-1].forward.work.gemms
    assert (classifier.m, classifier.n, classifier.k) == (1632, 36548, 1024)
    assert (classifier.m, classifier.n, classifier.k) in listed


def test_classifier_scores_the_target_unless_told_otherwise():
    (usual,) = gnmt.generate(batch=2, target_length=5).layers[-1].forward.work.gemms

    assert usual.m == 2 * 5
    with pytest.raises(ValueError, match="classifier_tokens must be a whole number of at least 1"):
        gnmt.generate(classifier_tokens=0)


def test_released_resnet50_has_the_times_of_one_image_on_an_array():
    """Weight stationary, 256x256: fill, weights and pixels for every fold."""

    def cycles(m: int, n: int, k: int) -> int:
        return -(-k // 256) * -(-n // 256) * (m + min(k, 256) + 256)

    exact = dict.fromkeys(("forward", "input_gradient", "weight_gradient"), 0)
    generated = resnet50.generate(batch=1, fused=True).layers
    for layer, ours in zip(shipped("resnet50").layers, generated, strict=True):
        for part in exact:
            for gemm in getattr(ours, part).work.gemms:
                stated = getattr(layer, part).compute_cycles
                ways = [cycles(gemm.m, gemm.n, gemm.k)]
                if part == "weight_gradient":
                    ways.append(cycles(gemm.n, gemm.m, gemm.k))
                assert stated >= min(ways)
                exact[part] += stated in ways

    # The first layer has an input gradient in the file only.
    assert exact == {"forward": 41, "input_gradient": 41, "weight_gradient": 54}


def test_recurrent_weights_are_read_in_every_step_unless_they_stay():
    read, kept = gnmt.generate(), gnmt.generate(cached_weights=True)

    saved = read.layers[1].forward.work.memory_bytes - kept.layers[1].forward.work.memory_bytes
    assert saved == 49 * 4 * 1024 * 1024 * 2


def test_mlp_split_over_npus_sums_after_every_second_layer():
    table = mlp.generate(sizes=(8, 16, 8, 16, 8), batch=2, model_parallel_npus=4)

    assert [layer.forward.size_bytes for layer in table.layers] == [0, 32, 0, 32]
    assert [layer.input_gradient.size_bytes for layer in table.layers] == [0, 0, 32, 0]
    assert table.forward_macs == 4 * 2 * 8 * 16 // 4


def test_a_job_computes_what_the_model_says():
    table = resnet50.generate()
    job = model_job(table, WHOLE, shape=(4, 4, 4), passes=3)
    computed = sum(task.duration_s for task in job.graphs[0].tasks if task.kind is TaskKind.COMPUTE)

    assert computed == pytest.approx(
        3
        * sum(
            WHOLE.time_s(each.work)
            for layer in table.layers
            for each in (layer.forward, layer.input_gradient, layer.weight_gradient)
        )
    )
    moved = [task.memory_bytes for task in job.graphs[0].tasks if task.iteration == 0]
    assert moved[0] == table.layers[0].forward.work.memory_bytes
    sent = [task.call for task in job.graphs[0].tasks if task.call]
    assert sum(call.size_bytes for call in sent) == 3 * gradient_bytes(table)
    assert {call.kind for call in sent} == {CollectiveKind.ALL_REDUCE}


def test_fewer_resources_make_longer_computations():
    table = gnmt.generate()
    taken = Roofline(resources=Accelerator().left(units_taken=6, memory_taken_bytes_per_s=450e9))

    def longest(compute):
        job = model_job(table, compute, shape=(4,))
        return max(task.duration_s for task in job.graphs[0].tasks)

    assert longest(taken) > longest(WHOLE)


def test_side_thread_of_dlrm_runs_on_its_own_resources():
    side = Roofline(resources=Accelerator().part(units=1, memory_bytes_per_s=80e9))
    rest = Roofline(resources=Accelerator().left(units_taken=1, memory_taken_bytes_per_s=80e9))
    job = load_workload("model:dlrm", preset="libra", shape=(4, 4), compute=rest, side=side)
    lookup = job.graphs[0].tasks[0]

    # 8 rows read for each written one, 4 MiB of them: the file has 419 431 ns for the reading.
    assert lookup.kind is TaskKind.DELAY
    assert lookup.duration_s == pytest.approx(419_431e-9 * 9 / 8, rel=1e-5)


def test_a_model_written_as_text_is_the_same_job():
    table = model("dlrm", preset="astra-sim")
    array = SystolicArray()
    workload = text_workload(table, array, cycle_s=1e-12)
    again = parse(render(workload), name="dlrm", source="dlrm.txt")
    direct = model_job(table, array, shape=(4, 4))
    read = training_job(again, shape=(4, 4), cycle_s=1e-12)

    assert [task.call for task in read.graphs[0].tasks] == [
        task.call for task in direct.graphs[0].tasks
    ]
    assert [task.duration_s for task in read.graphs[0].tasks] == pytest.approx(
        [task.duration_s for task in direct.graphs[0].tasks], abs=1e-12
    )


def test_recomputation_survives_the_text():
    table = Transformer(layers=2, recompute=True, model_parallel_npus=2).table()
    again = parse(render(text_workload(table, WHOLE)), name="t", source="t.txt")

    assert len(training_job(again, shape=(4,)).graphs[0].tasks) == len(
        model_job(table, WHOLE, shape=(4,)).graphs[0].tasks
    )


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("vgg", {}, "model must be one of resnet50, gnmt, dlrm, transformer, mlp, not 'vgg'"),
        ("resnet50", {"preset": "x"}, r"preset of model 'resnet50' must be one of \(none\)"),
        ("dlrm", {"preset": "x"}, "preset of model 'dlrm' must be one of libra, astra-sim"),
        (
            "resnet50",
            {"images": 3},
            "option of model:resnet50 must be one of batch, .* not 'images'",
        ),
        ("resnet50", {"batch": 0}, "batch must be a whole number of at least 1, not 0"),
        ("resnet50", {"batch": 2.5}, "batch must be of type int, not 2.5"),
        ("resnet50", {"batch": True}, "batch must be of type int, not True"),
        ("resnet50", {"fused": 1}, "fused must be of type bool, not 1"),
        ("resnet50", {"image_size": 100}, "image_size must be a multiple of 32, not 100"),
        ("dlrm", {"interaction": "sum"}, "interaction must be dot or concatenate, not 'sum'"),
        ("dlrm", {"bottom": (13, 32)}, "bottom must end with dimension, 64, not 32"),
        ("dlrm", {"top": ()}, r"top must hold 1 or more sizes above 0, not \[\]"),
        ("transformer", {"heads": 7}, "heads must divide hidden, 768, not 7"),
        (
            "transformer",
            {"model_parallel_npus": 5},
            "model_parallel_npus must divide heads, 12, not 5",
        ),
        ("transformer", {"positions": -1}, "positions must be at least 0, not -1"),
        ("mlp", {"sizes": (3,)}, "sizes must hold two or more sizes"),
        ("mlp", {"sizes": (3, 0)}, "sizes must hold two or more sizes"),
        (
            "mlp",
            {"sizes": (8, 9, 8), "model_parallel_npus": 2},
            r"model_parallel_npus must divide every second of sizes, \[9\], not 2",
        ),
        (
            "mlp",
            {"sizes": (8, 8), "model_parallel_npus": 2},
            "sizes must give an even number of layers to be split over NPUs, not 1",
        ),
        ("gnmt", {"encoder_layers": 10**9}, "encoder_layers must be at most 100000, not 10000000"),
        ("gnmt", {"decoder_layers": 10**9}, "decoder_layers must be at most 100000, not 10000000"),
        ("transformer", {"layers": 10**9}, "layers must be at most 100000, not 10000000"),
        ("transformer", {"decoder_layers": 10**9}, "decoder_layers must be at most 100000, not"),
    ],
)
def test_impossible_models_are_refused(name, options, reason):
    with pytest.raises(ValueError, match=reason):
        model(name, **options)
