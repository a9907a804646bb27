import numpy as np
import pytest

from sim.describe.collective import parse
from sim.rtl.collective import run_collective, sample_vectors

SYSTEM = """
[topology]
kind = "ring"
nodes = 3
[engine]
preset = "test"
[link]
latency_cycles = 7
stall_probability = 0.1
[memory]
stall_probability = 0.1
[collective]
kind = "{kind}"
op = "{op}"
elements = {elements}
[run]
seed = 5
"""


def system(kind="all_reduce", op="sum_f32", elements=301):
    return parse(SYSTEM.format(kind=kind, op=op, elements=elements), source="s.toml")


@pytest.mark.parametrize(
    ("kind", "op", "elements"),
    [
        ("all_reduce", "sum_f32", 301),
        ("all_reduce", "max_f32", 1),
        ("reduce_scatter", "sum_i32", 301),
        ("all_gather", "sum_f32", 77),
    ],
)
def test_described_collective_equals_numpy(kind, op, elements):
    outcome = run_collective(system(kind, op, elements))

    assert outcome.exact
    assert outcome.cycles > elements / 4


def test_same_description_takes_the_same_cycles():
    first, second = (run_collective(system()) for _ in range(2))

    assert first.cycles == second.cycles
    assert [link.name for link in first.links] == [link.name for link in second.links]
    for a, b in zip(first.links, second.links, strict=True):
        assert np.array_equal(a.total, b.total)


def test_utilisation_adds_up_to_the_payload_that_the_algorithm_sends():
    outcome = run_collective(system(elements=3000))

    share_of_bytes = sum(link.payload.sum() for link in outcome.links)
    sent_bytes = share_of_bytes * outcome.interval_cycles * outcome.config.engine.bus_bytes
    # 2 (n - 1) steps of a third of the vector each, on all three nodes.
    assert sent_bytes == pytest.approx(4 * 3000 * 4, rel=0.02)


def test_wrong_expectation_is_noticed(monkeypatch):
    """A golden model with one wrong bit must make the outcome inexact."""
    from sim.rtl.ace_ring import AceRing

    golden = AceRing.golden

    def wrong(self, *arguments, **options):
        result = golden(self, *arguments, **options)
        result.view(np.uint32)[100] ^= 1
        return result

    monkeypatch.setattr(AceRing, "golden", wrong)

    assert not run_collective(system()).exact


def test_vectors_differ_between_nodes_and_have_the_type_of_the_operation():
    floats, integers = sample_vectors(system()), sample_vectors(system(op="sum_i32"))

    assert floats[0].dtype == np.float32 and integers[0].dtype == np.int32
    assert len({vector.tobytes() for vector in floats}) == 3
