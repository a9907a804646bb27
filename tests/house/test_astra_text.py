import re

import pytest

from sim.workload.astra_text import Collective, WorkloadError, parse, read, shipped

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
        Collective.ALL_GATHER,
        Collective.REDUCE_SCATTER,
        Collective.ALL_TO_ALL,
    ]


def test_options_of_the_header_keep_their_labels():
    text = GOOD.replace("DATA", "HYBRID_DLRM 4 group: 4 checkpoints: 2 2 11")

    options = parse(text, name="w", source="w.txt").options

    assert options == {"": (4,), "group": (4,), "checkpoints": (2, 2, 11)}


def test_rows_without_the_two_header_lines_are_accepted():
    workload = parse(GOOD.split("\n", 2)[2], name="w", source="w.txt")

    assert (len(workload.layers), workload.parallelism) == (2, None)


def test_thirteenth_column_is_the_parallelism_of_the_layer():
    text = GOOD.replace("DATA", "HYBRID_CUSTOMIZED").replace("400 3", "400 3 MODEL")

    assert [each.parallelism for each in parse(text, name="w", source="w.txt").layers] == [
        "MODEL",
        None,
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("DATA", "DATTA", "w.txt:1: parallelism must be one of DATA,"),
        ("DATA", "DATA x", "w.txt:1: option must be a non-negative integer, not 'x'"),
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
    with pytest.raises(ValueError, match="name must be one of resnet50, not 'vgg'"):
        shipped("vgg")
