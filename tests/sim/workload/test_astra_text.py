# SPDX-License-Identifier: Apache-2.0
import contextlib
import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sim.workload.astra_text import (
    SHIPPED,
    WorkloadError,
    parse,
    read,
    render,
    shipped,
)
from sim.workload.graph import CollectiveKind

GOOD = """DATA
2
conv1 -1 10 NONE 0 11 NONE 0 12 ALLREDUCE 400 3
fc\t-1\t20\tALLGATHER\t64 21 REDUCESCATTER 32 22 ALLTOALL 16 5
"""


def test_shipped_resnet50_has_the_published_sizes():
    workload = shipped("resnet50")

    assert workload.parallelism == "DATA"
    assert len(workload.layers) == 54
    assert workload.layers[0].weight_gradient.size_bytes == 7 * 7 * 3 * 64 * 4
    assert sum(layer.forward.compute_cycles for layer in workload.layers) == 380038
    assert sum(layer.weight_gradient.size_bytes for layer in workload.layers) == 102011648


def test_every_column_lands_where_it_belongs():
    layer = parse(GOOD, name="w", source="w.txt").layers[1]

    assert (layer.name, layer.update_cycles) == ("fc", 5)
    passes = (layer.forward, layer.input_gradient, layer.weight_gradient)
    assert [each.compute_cycles for each in passes] == [20, 21, 22]
    assert [each.size_bytes for each in passes] == [64, 32, 16]
    assert [each.collective for each in passes] == [
        CollectiveKind.ALL_GATHER,
        CollectiveKind.REDUCE_SCATTER,
        CollectiveKind.ALL_TO_ALL,
    ]


def test_options_of_the_header_keep_their_labels():
    header = (
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 "
        "checkpoints: 1 0 checkpoint_initiates: 1 1"
    )

    options = parse(GOOD.replace("DATA", header), name="w", source="w.txt").options

    assert options == {
        "model_parallel_NPU_group": (4,),
        "checkpoints": (1, 0),
        "checkpoint_initiates": (1, 1),
    }


def test_rows_without_the_two_header_lines_are_accepted():
    workload = parse(GOOD.split("\n", 2)[2], name="w", source="w.txt")

    assert (len(workload.layers), workload.parallelism) == (2, None)


def test_thirteenth_column_is_the_parallelism_of_the_layer():
    text = (
        GOOD.replace("DATA", "HYBRID_CUSTOMIZED")
        .replace("400 3", "400 3 MODEL")
        .replace("16 5", "16 5 DATA")
    )

    assert [each.parallelism for each in parse(text, name="w", source="w.txt").layers] == [
        "MODEL",
        "DATA",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("DATA", "DATTA", "w.txt:1: parallelism must be one of DATA,"),
        ("DATA", "DATA x", "w.txt:1: option must be a non-negative integer, not 'x'"),
        ("DATA", "DATA 4", "w.txt:1: DATA takes no options, not 'a number'"),
        ("DATA", "DATA group: 4", "w.txt:1: DATA takes no options, not 'group'"),
        ("DATA", "HYBRID_DLRM", "w.txt:1: HYBRID_DLRM needs the last bottom layer"),
        ("DATA", "HYBRID_DLRM 1", "w.txt:1: last bottom layer must be 1 .. 0, not 1"),
        (
            "DATA",
            "HYBRID_TRANSFORMER model_parallel_NPU_group: 0",
            "w.txt:1: model_parallel_NPU_group must be at least 1, not 0",
        ),
        (
            "DATA",
            "HYBRID_TRANSFORMER model_parallel_NPU_group: 4 4",
            "w.txt:1: model_parallel_NPU_group must be one number, not (4, 4)",
        ),
        (
            "DATA",
            (
                "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 checkpoints: 2 0 "
                "checkpoint_initiates: 1 1"
            ),
            "w.txt:1: checkpoints must be a count and as many layers, not (2, 0)",
        ),
        (
            "DATA",
            (
                "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 checkpoints: 1 0 "
                "checkpoint_initiates: 1 2"
            ),
            "w.txt:1: checkpoint_initiates must name layers 0 .. 1, not (2,)",
        ),
        ("DATA", "HYBRID_CUSTOMIZED", "w.txt:3: HYBRID_CUSTOMIZED needs a 13th column"),
        ("\n2\n", "\n0\n", "w.txt:2: number of layers must be at least 1"),
        ("\n2\n", "\n2 2\n", "w.txt:2: number of layers is followed by '2'"),
        ("conv1 -1", "conv1 x", "w.txt:3: reserved column must be an integer, not 'x'"),
        ("ALLREDUCE 400", "ALLREDUCE -400", "w.txt:3: weight gradient bytes must be a non-neg"),
        ("ALLREDUCE 400", "ALLREDUCE " + "9" * 19, "w.txt:3: weight gradient bytes must be at mo"),
        ("ALLREDUCE 400", "ALLREDUCE " + "9" * 99999, "bytes must be at most 9223372036854775807"),
        ("\n2\n", "\n3\n", "w.txt:2: number of layers is 3, but 2 rows follow"),
        ("\n2\n", "\ntwo\n", "w.txt:2: number of layers must be a non-negative integer, not 'two'"),
        ("12 ALLREDUCE", "-12 ALLREDUCE", "w.txt:3: weight gradient cycles must be"),
        ("ALLREDUCE", "ALLREDUC", "w.txt:3: weight gradient collective must be one of NONE,"),
        ("ALLREDUCE", "NONE", "w.txt:3: weight gradient collective is NONE, but its size is 400"),
        ("ALLREDUCE 400", "ALLREDUCE 0", "collective is ALLREDUCE, but its size is 0 bytes"),
        (" 16 5", " 16", "w.txt:4: a layer has 12 or 13 columns, not 11"),
        ("400 3", "400 3 DATTA", "w.txt:3: parallelism must be one of"),
    ],
)
def test_errors_name_file_line_and_what_is_allowed(old, new, message):
    assert old in GOOD
    with pytest.raises(WorkloadError, match=re.escape(message)):
        parse(GOOD.replace(old, new, 1), name="w", source="w.txt")


def test_empty_and_missing_files_are_errors(tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")

    with pytest.raises(WorkloadError, match="no layers; the file is empty"):
        read(tmp_path / "empty.txt")
    with pytest.raises(WorkloadError, match="cannot be read"):
        read(tmp_path / "absent.txt")
    with pytest.raises(ValueError, match=r"name must be one of resnet50, .*, not 'vgg'"):
        shipped("vgg")


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_rendered_reads_back_the_same(name):
    workload = shipped(name)

    assert parse(render(workload), name=name, source="again") == workload


@pytest.mark.parametrize(
    ("name", "layers", "cycles", "sizes"),
    [
        ("resnet50", 54, (380038, 377463, 337813), (0, 0, 102011648)),
        ("dlrm", 8, (19020, 19014, 13644), (98304, 98304, 3191808)),
        (
            "transformer",
            57,
            (199371180, 186727713, 162843649),
            (82116608 + 100663296, 109051904 + 805306368, 2434351104),
        ),
        (
            "transformer-recompute",
            21,
            (171829524,) * 3,
            (348700672, 348651520, 1176732928),
        ),
        ("mlp-data-model", 6, (78883,) * 3, (447232,) * 3),
        ("libra-resnet50", 54, (380038, 377463, 337813), (0, 0, 51005824)),
        ("libra-dlrm", 20, (1399259, 980128, 979838), (4194304, 4194304, 114823168)),
    ],
)
def test_shipped_files_have_the_totals_of_their_origin(name, layers, cycles, sizes):
    workload = shipped(name)

    passes = [
        [layer.forward for layer in workload.layers],
        [layer.input_gradient for layer in workload.layers],
        [layer.weight_gradient for layer in workload.layers],
    ]
    assert len(workload.layers) == layers
    assert tuple(sum(each.compute_cycles for each in one) for one in passes) == cycles
    assert tuple(sum(each.size_bytes for each in one) for one in passes) == sizes


def test_a_layer_name_of_two_words_cannot_be_written():
    workload = parse(GOOD, name="w", source="w.txt")
    broken = replace(workload, layers=(replace(workload.layers[0], name="a b"),))

    with pytest.raises(ValueError, match="layer name must be one word"):
        render(broken)


@given(st.text(max_size=300))
@example("DATA\n1\n" + "x " * 12)
@example("DATA\n1\n" + "1 " * 12)
def test_any_text_is_read_or_refused_with_an_error_of_ours(text):
    with contextlib.suppress(WorkloadError):
        parse(text, name="any", source="any")


@given(st.data())
def test_a_damaged_file_is_read_or_refused_with_an_error_of_ours(data):
    words = re.split(r"(\s+)", render(shipped("dlrm")))
    place = data.draw(st.integers(0, len(words) - 1))
    words[place] = data.draw(
        st.sampled_from(["", "-1", "NONE", "\x00", "1e9", "²", "\n", "\ufeff"])
    )
    with contextlib.suppress(WorkloadError):
        parse("".join(words), name="any", source="any")
