# SPDX-License-Identifier: Apache-2.0
import ctypes
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from threading import Event, Timer

import pytest
from rich.console import Console

from foldwire import __version__
from foldwire.catalog import build
from foldwire.cli import cli, main
from foldwire.console import interruptible, step, tally
from gen.benches import SIMULATOR, choose_simulator
from gen.cache import announce, set_announcer
from gen.verilator import find_verilator, has_verilator
from sim.describe.build import build as build_system
from sim.describe.system import read

ROOT = Path(__file__).parents[2]
COMMANDS = [
    "bandwidth", "compare", "demo", "examples", "explore", "gen", "machines", "reproduce", "sim",
    "sweep", "synth", "tb", "view",
]


TRAINING = (
    "[topology]\nkind = 'torus'\nshape = [4, 2]\nbandwidth_bytes_per_s = 1e9\n"
    "[workload]\ncollective = 'all_reduce'\nsize_bytes = 100_000\n"
)


RING = (
    "[topology]\nkind = 'ring'\nshape = [4]\nbandwidth_bytes_per_s = 19.92e9\nlatency_s = 8e-9\n"
    "[endpoint]\nkind = 'ace'\nlevel = 'rtl'\npreset = 'test'\n"
    "[workload]\ncollective = 'all_reduce'\nsize_bytes = 200\n[run]\npasses = 1\n"
)


def run(capsys, *arguments):
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_version(capsys):
    assert run(capsys, "--version") == (0, f"foldwire {__version__}\n", "")


def test_no_arguments_is_help_with_every_command(capsys):
    code, out, err = run(capsys)

    assert (code, err) == (0, "")
    assert sorted(cli.commands) == COMMANDS
    assert all(f"\n  {name} " in out for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(capsys, command):
    code, out, _ = run(capsys, command, "--help")

    assert code == 0
    assert f"Examples:\n    foldwire {command}" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["snyth"],
            "unknown command 'snyth' (did you mean 'synth'?); there are: bandwidth, compare, demo",
        ),
        (["gen", "acee"], "unknown design 'acee' (did you mean 'ace'?); there are: ace, adder"),
        (
            ["gen", "ace", "--preset", "isca22"],
            "unknown preset of ace 'isca22' (did you mean 'isca21'?); there are: test,",
        ),
        (
            ["gen", "ace", "--preset", "test", "--set", "bank=2"],
            "unknown parameter of ace 'bank' (did you mean 'banks'?); there are: ports,",
        ),
        (
            ["gen", "ace", "--preset", "test", "--set", "banks=3"],
            "banks must be a power of two from 1 to 64, not 3",
        ),
        (
            ["gen", "smartnic", "--preset", "test", "--set", "ethernet=maybe"],
            "ethernet must be true or false, not 'maybe'",
        ),
        (["gen", "adder", "--set", "stages=x"], "stages must be an integer, not 'x'"),
        (["gen", "adder", "--set", "stages"], "--set takes KEY=VALUE, not 'stages'"),
        (["gen", "adder", "--set", "width=8"], "width must be one of 16, 32, not 8"),
        (["gen", "ace", "--prest", "test"], "No such option '--prest'"),
        (["gen", "switch", "--prots", "16"], "No such option '--prots'"),
        (["gen", "switch", "--ports"], "--ports needs a value"),
        (["gen", "switch", "--ports", "19"], "ports must be an integer from 4 to 18, not 19"),
        (
            ["gen", "adder", "--ports", "16"],
            "unknown parameter of adder 'ports'; there are: width, stages",
        ),
        (["gen", "--preset", "test"], "--preset needs DESIGN"),
        (["tb", "--full"], "--full needs NAME"),
        (["machines", "--fit", __file__], "--fit needs NAME"),
        (["sim"], "Missing argument 'SYSTEM'"),
        (["sim", "absent.toml"], "absent.toml: cannot be read: No such file or directory"),
        (["synth", "adder", "--target", "asic"], "target must be one of "),
        (["sim", "small.toml", "--endpoint", "ace"], "small.toml:1: engine: unknown key; did you"),
        (["sim", "sweep.toml"], "sweep.toml:1: grid: belongs to a sweep; foldwire sweep runs it"),
        (
            ["sim", "training.toml", "--endpoint", "ace:rtx"],
            "training.toml: endpoint.level: must be one of events, cycles, rtl, not 'rtx'",
        ),
        (
            ["sim", "training.toml", "--endpoint", "ace:rtl"],
            "training.toml: endpoint.ports: at level 'rtl', must be at least 4, one for each link",
        ),
        (["sim", "training.toml", "-o", "/proc/x"], "/proc/x: cannot be written: No such file or"),
        (["sweep", "training.toml"], "training.toml:1: topology: belongs to a system, which fold"),
        (["compare", "one"], "compare takes at least two runs"),
        (["compare", "one", "two"], "one/run.json: cannot be read: No such file or directory; a"),
        (["sweep"], "Missing argument 'SWEEP'"),
        (["sweep", "absent.toml"], "absent.toml: cannot be read: No such file or directory"),
        (["sweep", "s.toml", "--workers", "0"], "Invalid value for '--workers': 0 is not in the"),
        (["reproduce", "ace-v2"], "unknown experiment 'ace-v2'; there are: ace-isca21, ace-v1,"),
        (["tb", "nosuchbench"], "unknown bench 'nosuchbench'; there are: "),
    ],
)
def test_mistake_is_one_line_and_code_2(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text("[engine]\npreset = 'test'\n")
    (tmp_path / "training.toml").write_text(TRAINING)
    (tmp_path / "sweep.toml").write_text("[grid]\nendpoint.kind = ['ideal']\n")

    code, _, err = run(capsys, *arguments)

    errors = [line for line in err.splitlines() if line.startswith("foldwire: ")]
    assert code == 2
    assert len(errors) == 1 and err.endswith(errors[0] + "\n")
    assert errors[0].startswith(f"foldwire: {message}")
    assert "Traceback" not in err


def test_bad_system_names_file_line_and_key(capsys, tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(RING.replace("shape = [4]", "shape = [9]"))

    code, _, err = run(capsys, "sim", str(path))

    assert code == 2
    assert err.splitlines()[-1] == (
        f"foldwire: {path}:1: topology: at level 'rtl', must have from 2 to 8 nodes, the max_nodes "
        "of preset 'test', not 9"
    )


@pytest.mark.parametrize(
    "options, names, head",
    [([], ["ace_test.sv", "ace_test.json", "ace_test.vlt"], "\nmodule ace_test (\n"),
     (["--style", "plain"], ["ace_test.v", "ace_test.json", "ace_test.vlt"],
      "\nmodule ace_test(")],
)
def test_gen_writes_verilog_manifest_and_register_map(capsys, tmp_path, options, names, head):
    code, out, _ = run(capsys, "gen", "ace", "--preset", "test", "-o", str(tmp_path), *options)

    assert code == 0
    names = [*names, "ace_test-registers.md", "ace_test-registers.json"]
    assert all(Path(line).is_file() for line in out.splitlines())
    assert out.splitlines()[: len(names)] == [str(tmp_path / name) for name in names]
    text = (tmp_path / names[0]).read_text()
    assert head in text
    command = " ".join(["foldwire gen ace --preset test", *options])
    assert f"// Made by: {command}\n" in text
    manifest = json.loads((tmp_path / "ace_test.json").read_text())
    assert manifest["parameters"]["bus_bytes"] == 16
    assert "| `0x0000` | `identity` |" in (tmp_path / "ace_test-registers.md").read_text()


@pytest.mark.skipif(not has_verilator(), reason="needs Verilator")
@pytest.mark.parametrize("style, ending", [("sv", "sv"), ("plain", "v")])
def test_what_gen_writes_passes_lint(capsys, tmp_path, style, ending):
    run(capsys, "gen", "adder", "--style", style, "-o", str(tmp_path))

    files = [tmp_path / f"adder_binary32.{kind}" for kind in ("vlt", ending)]
    assert not find_verilator().lint(files, top="adder_binary32")


def test_gen_of_a_description_with_two_designs_names_both(capsys, tmp_path):
    assert main(["gen", "examples/in_switch_cycles.toml", "-o", str(tmp_path)]) == 2
    wanted = "endpoint.kind: must be of one design, not of 'in_switch', which has 2: name switch"
    assert wanted in capsys.readouterr().err


def test_gen_without_a_design_lists_them(capsys):
    code, out, _ = run(capsys, "gen")

    assert code == 0
    assert "isca21" in out and "adder" in out


def test_gen_obeys_changes(capsys, tmp_path):
    run(capsys, "gen", "adder", "--set", "stages=1", "-o", str(tmp_path))

    text = (tmp_path / "adder_binary32.sv").read_text()
    assert "//   stages = 1\n" in text


@pytest.mark.parametrize("words", [["--stages", "1"], ["--stages=1"]])
def test_a_parameter_is_an_option(capsys, tmp_path, words):
    for place, options in (("a", words), ("b", ["--set", "stages=1"])):
        assert run(capsys, "gen", "adder", *options, "-o", str(tmp_path / place))[0] == 0

    one, other = ((tmp_path / place / "adder_binary32.sv").read_text() for place in "ab")
    assert one == other and "//   stages = 1\n" in one


def test_a_parameter_may_stand_anywhere_and_its_name_have_hyphens(capsys, tmp_path):
    words = ["--address-bits", "40", "switch-dma", "--read-ahead=4", "-o", str(tmp_path)]
    assert run(capsys, "gen", *words)[0] == 0

    text = (tmp_path / "switch_dma_test.sv").read_text()
    assert "//   address_bits = 40\n" in text and "//   read_ahead = 4\n" in text


@pytest.mark.parametrize("text, value", [("false", False), ("0", False), ("True", True)])
def test_gen_takes_truth_values(text, value):
    design = build("smartnic", "test", {"ethernet": text})

    assert design.parameters["ethernet"] is value
    assert ("own_address_low" in design.registers.registers) == value


def test_sim_prints_a_table_and_draws_a_figure(capsys, tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(RING)

    code, out, _ = run(capsys, "sim", str(path), "-o", str(tmp_path / "out"))

    assert code == 0
    said = " ".join(out.split())  # notes are wrapped
    assert "all equal numpy's" in said and "run time" in said
    assert (tmp_path / "out" / "small" / "links.svg").read_text().count("<svg") == 1


def test_sim_writes_waveforms_of_signals(capsys, tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(RING)

    words = ["--trace-signals", "irq", "--trace-signals", "idle", "-o", str(tmp_path / "out")]
    assert run(capsys, "sim", str(path), *words)[0] == 0

    text = (tmp_path / "out" / "small" / "signals.vcd").read_text()
    assert text.count(" irq $end") == text.count(" idle $end") == 4


def test_keys_are_set_on_the_command_line(capsys, tmp_path, training):
    options = ["--set", "scheduler.chunk_bytes=4096", "--set", "topology.shape=[2, 3]"]
    code, out, _ = run(capsys, "sim", str(training), *options, "--passes", "3", "--fold", "off",
                       "--set", "topology.kind=torus", "-o", str(tmp_path / "out"))

    assert code == 0 and "not folded: switched off" in " ".join(out.split())
    (folder,) = (tmp_path / "out").iterdir()
    assert folder.name.startswith("small-chunk_bytes=4096-shape=_2_3")
    saved = json.loads((folder / "run.json").read_text())
    assert saved["metrics"]["nodes"] == 6


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("scheduler", "--set: must be KEY=VALUE, as scheduler.concurrency=16, not 'scheduler'"),
        ("run.pases=1", "--set: run.pases: unknown key; did you mean 'passes'?"),
        ("run.passes=no", "--set: run.passes: must be an integer, not 'no'"),
        ("topology.kind.x=1", "--set: topology.kind.x: 'x' lies in "),
    ],
)
def test_wrong_key_of_the_command_line_is_named(capsys, training, option, message):
    code, _, err = run(capsys, "sim", str(training), "--set", option)

    assert code == 2
    assert err.splitlines()[-1].startswith(f"foldwire: {message}")


def test_training_systems_are_run_saved_and_compared(capsys, tmp_path, training):
    for arguments in ([], ["--endpoint", "ace"]):
        code, out, _ = run(capsys, "sim", str(training), *arguments, "-o", str(tmp_path / "out"))
        assert code == 0
        assert "exposed communication" in out and "lower bound" in out
    folders = [str(tmp_path / "out" / name) for name in ("small", "small-ace")]
    names = {path.name for path in (tmp_path / "out" / "small-ace").iterdir()}
    assert {"run.json", "layers.parquet", "division.svg", "trace.json"} <= names

    code, out, _ = run(capsys, "compare", *folders, "-o", str(tmp_path / "out"))

    assert code == 0
    assert "Runs side by side" in out and "small-ace" in out
    name = "-".join(["compare", *(Path(folder).name for folder in folders)])
    assert (tmp_path / "out" / name / "compare.svg").exists()


def test_comparisons_do_not_overwrite_each_other(capsys, tmp_path, training):
    for folder in ("a", "b"):
        assert run(capsys, "sim", str(training), "-o", str(tmp_path / folder))[0] == 0
    saved = [str(tmp_path / folder / "small") for folder in ("a", "b")]
    for runs in (saved, saved[::-1], saved[:1] * 2):
        assert run(capsys, "compare", *runs, "-o", str(tmp_path / "out"))[0] == 0

    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "compare-a-small-b-small", "compare-b-small-a-small", "compare-small-small",
    }


def test_bad_key_of_a_training_system_names_its_line(capsys, tmp_path, training):
    training.write_text(training.read_text() + "[run]\npases = 1\n")

    code, _, err = run(capsys, "sim", str(training), "--endpoint", "ace")

    assert code == 2
    assert err.splitlines()[-1].startswith(f"foldwire: {training}:9: run.pases: unknown key; did")


def test_sweep_goes_on_where_it_was(capsys, tmp_path, training):
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(
        "base = 'small.toml'\n[grid]\nworkload.size_bytes = [1000, 2000]\n"
        "endpoint.kind = ['ideal', 'none']\n"
    )
    arguments = ["sweep", str(sweep), "--workers", "1", "-o", str(tmp_path / "out")]

    first = run(capsys, *arguments)
    again = run(capsys, *arguments)

    assert first[0] == again[0] == 1  # two points fail
    assert f"2 failed: {training}: endpoint.kind: must be one of ideal," in first[1]
    assert "--retry runs those that failed again" in first[1]
    assert "4 points, 4 of them from before" in again[1]
    assert first[1].splitlines()[:5] == again[1].splitlines()[:5]
    assert (tmp_path / "out" / "sweep" / "sweep.parquet").exists()


@pytest.fixture
def training(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(TRAINING)
    return path


def test_reproduce_lists_experiments(capsys):
    code, out, _ = run(capsys, "reproduce")

    assert code == 0
    assert "ace-isca21" in out and "ace-v1" in out


def test_reproduce_hands_its_arguments_over(capsys, monkeypatch):
    import experiments.ace_v1

    got = []
    monkeypatch.setattr(experiments.ace_v1, "main", lambda argv: got.append(argv) or 3)

    assert run(capsys, "reproduce", "ace-v1", "fig12", "-o", "x", "--list")[0] == 3
    assert got == [["fig12", "-o", "x", "--list"]]


@pytest.mark.parametrize("command", ["reproduce", "tb"])
def test_without_a_checkout_it_says_so(capsys, monkeypatch, tmp_path, command):
    monkeypatch.setattr("foldwire.cli.ROOT", tmp_path)

    code, _, err = run(capsys, command)

    assert code == 2
    assert "from a checkout of the repository; there is none" in err


def test_help_loads_nothing_heavy():
    script = (
        "import sys\nfrom foldwire.cli import main\nmain(['sim', '--help'])\n"
        "heavy = {'numba', 'matplotlib', 'pyarrow', 'dask', 'rich', 'pandas', 'llvmlite'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


def test_tool_failure_is_a_message_and_code_1(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("FOLDWIRE_CACHE", str(tmp_path))
    path = tmp_path / "s.toml"
    # A configuration that no other test uses: compiled engines are kept within a process.
    path.write_text(RING.replace("[workload]", "rx_packets = 9\n[workload]"))

    code, _, err = run(capsys, "sim", str(path))

    assert code == 1
    assert "no C++ compiler" in err and "Traceback" not in err


@pytest.mark.skipif(not has_verilator(), reason="needs Verilator")
@pytest.mark.parametrize(
    "there, missing",
    [((), "needs perl, which is not on PATH"), (("perl",), "no C++ compiler"),
     (("perl", "g++"), "needs make, which is not on PATH")],
    ids=["perl", "compiler", "make"],
)
def test_a_bench_says_in_one_line_what_to_install(there, missing, capsys, tmp_path, monkeypatch):
    for tool in there:
        place = shutil.which(tool)
        if place is None:
            pytest.skip(f"needs {tool}")
        (tmp_path / tool).symlink_to(place)
    if find_verilator().root is None:
        pytest.skip("needs the verilator package")
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("CXX", SIMULATOR):
        monkeypatch.delenv(variable, raising=False)

    code, out, err = run(capsys, "tb", "fp")

    assert (code, out) == (1, "")
    (line,) = err.splitlines()
    assert line.startswith("foldwire: ") and missing in line and "apt-get install" in line


def test_commands_that_write_into_one_folder_at_once_leave_what_they_leave_alone(tmp_path):
    designs = [("adder", "binary16"), ("adder", "binary16"), ("adder", "binary32-comb")]

    def start(design, folder):
        folder.mkdir(exist_ok=True)
        name, preset = design
        return subprocess.Popen(
            [sys.executable, "-m", "foldwire", "gen", name, "--preset", preset, "-o", "made"],
            cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    at_once = [start(design, tmp_path / "at once") for design in designs]
    said = [each.communicate()[1] for each in at_once]
    assert [each.returncode for each in at_once] == [0, 0, 0], said
    for design in designs[1:]:
        alone = start(design, tmp_path / "alone")
        said = alone.communicate()[1]
        assert alone.returncode == 0, said

    def files(folder):
        return {
            path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()
        }

    assert files(tmp_path / "at once") == files(tmp_path / "alone") != {}


def test_debug_keeps_the_traceback(monkeypatch):
    monkeypatch.setenv("FOLDWIRE_DEBUG", "1")

    with pytest.raises(ValueError, match="unknown design"):
        main(["gen", "acee"])


def test_tb_lists_benches(capsys):
    code, out, _ = run(capsys, "tb")

    assert code == 0
    assert "selftest" in out and "switch-dma" in out


@pytest.mark.cosim
def test_tb_runs_a_bench_and_module_form_works():
    done = subprocess.run(
        [sys.executable, "-m", "foldwire", "tb", "selftest"],
        env={
            **os.environ, "FOLDWIRE_SIMULATOR": choose_simulator(),
            "PYTEST_ADDOPTS": "-k passing_test",  # one of its tests, for each simulator
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b1 passed, 1 skipped, \d+ deselected in", done.stdout), done.stdout


def interrupted(work, after_s):
    """Do *work*, which Ctrl-C ends after a while."""
    # A shell starts what runs in the background with interrupts ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    Timer(after_s, os.kill, [os.getpid(), signal.SIGINT]).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            interruptible(work)
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_work_in_compiled_code():
    # A lock taken twice waits in C, whatever signals come.
    library, lock = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    ended = Event()

    def work():
        library.pthread_mutex_lock(lock)
        try:
            library.pthread_mutex_lock(lock)
        finally:
            ended.set()

    release = Timer(10, library.pthread_mutex_unlock, [lock])
    release.start()
    interrupted(work, 0.2)
    in_time = not ended.is_set() and release.is_alive()
    release.cancel()
    library.pthread_mutex_unlock(lock)
    assert ended.wait(10)
    assert in_time


def test_interrupted_work_does_not_go_on():
    steps = []

    def work():
        while len(steps) < 100:
            time.sleep(0.25)
            steps.append(threading.current_thread())

    interrupted(work, 0.4)
    assert 1 <= len(steps) <= 2
    assert not steps[0].is_alive(), "the interpreter may end with it"


def test_interruptible_work_gives_its_result_or_its_error():
    assert interruptible(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0)


def test_sweep_without_failures_has_code_0(capsys, tmp_path, training):
    sweep = tmp_path / "sweep.toml"
    sweep.write_text("base = 'small.toml'\n[grid]\nworkload.size_bytes = [1000]\n")

    arguments = ["sweep", str(sweep), "--workers", "1", "-o", str(tmp_path / "out")]
    assert run(capsys, *arguments)[0] == 0


def test_a_folder_that_cannot_be_written_is_refused_before_the_run(capsys, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("foldwire.systems.simulate", lambda *a, **k: asked.append(a))
    blocked = tmp_path / "file"
    blocked.write_text("")

    code, _, err = run(capsys, "sim", "x.toml", "-o", str(blocked / "new" / "deep"))

    assert code == 2 and "deep: cannot be written: Not a directory" in err and not asked
    run(capsys, "sim", "x.toml", "-o", str(tmp_path / "new" / "deep"))
    assert asked and not (tmp_path / "new").exists()


def test_examples_are_listed_and_copied(capsys, tmp_path):
    code, listed, _ = run(capsys, "examples")

    assert code == 0 and "gpt3.toml" in listed and "sweeps/endpoints.toml" in listed
    code, out, _ = run(capsys, "examples", "-o", str(tmp_path / "mine"))
    assert code == 0
    copied = {Path(line).relative_to(tmp_path / "mine").as_posix() for line in out.splitlines()}
    assert {"gpt3.toml", "traces/two_layers.et", "sweeps/endpoints.toml"} <= copied
    for name in ("chakra_trace", "astra_files"):
        assert build_system(read(tmp_path / "mine" / f"{name}.toml")).job.graphs
    code, _, err = run(capsys, "examples", "-o", str(tmp_path / "mine"))
    assert code == 2 and "is there already; choose another folder" in err


def test_an_empty_description_is_a_mistake(tmp_path, capsys):
    path = tmp_path / "empty.toml"
    path.write_text("# nothing\n", encoding="utf-8")
    code, _, err = run(capsys, "sim", str(path))

    assert code == 2
    assert "empty.toml: describes nothing; a description has [topology] and [workload]" in err


def test_what_the_cache_says_stands_below_the_step_that_waits(capsys):
    before = set_announcer(None)
    try:
        with step("compiling"):
            announce("first, once ...")
            announce("second, once ...")
        with pytest.raises(ValueError), step("failing"):
            raise ValueError
        announce("outside")
    finally:
        set_announcer(before)

    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == ["  compiling ...", "    first, once ...", "    second, once ..."]
    assert re.fullmatch(r"  compiling \.\.\. \d+\.\d s", lines[3])
    assert lines[4:] == ["  failing ...", "outside"]


def test_a_log_is_told_how_far_a_sweep_is(capsys, monkeypatch):
    monkeypatch.setattr("foldwire.console.LOG_EVERY_S", 0.0)
    with tally("3 points on 1 process") as progress:
        progress(1, 0, 3)
        progress(3, 1, 3)

    lines = [line.strip() for line in capsys.readouterr().err.splitlines()]
    assert [line for line in lines if line.endswith("failed")] == [
        "1 of 3 done, 0 failed", "3 of 3 done, 1 failed", "3 of 3 done, 1 failed",
    ]


def test_a_log_is_told_how_long_a_run_still_takes(capsys, monkeypatch):
    monkeypatch.setattr("foldwire.console.LOG_EVERY_S", 0.0)
    with step("simulating big") as report:
        report(0.0)
        time.sleep(1.0)  # the engine is compiled: no work is done meanwhile
        report(0.01)
        time.sleep(0.01)
        report(0.26)

    lines = [line.strip() for line in capsys.readouterr().err.splitlines()]
    assert lines[0] == "simulating big ..."
    assert re.fullmatch(r"26 % done, about 0:00:0[01] left", lines[1])


def test_a_log_is_told_that_work_which_says_nothing_goes_on(capsys, monkeypatch):
    monkeypatch.setattr("foldwire.console.ALIVE_EVERY_S", 0.05)
    with step("mapping"):
        time.sleep(0.3)
    with step("quick"):
        pass

    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["  mapping ...", "    at work for 0:00:00"] and len(lines) < 12
    assert lines[-1].startswith("  quick ...")


def test_a_terminal_shows_the_time_left_of_a_run(monkeypatch):
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr("foldwire.console._err", terminal)
    with step("simulating big") as report:
        report(0.25)
        time.sleep(0.3)
        report(0.5)
        time.sleep(0.3)

    assert re.search(r"\d:\d\d:\d\d left", screen.getvalue())


def test_a_command_settles_its_process_and_no_other_does():
    """Threads of numpy and the search for garbage belong to whoever imports us."""
    state = "print(os.environ.get('OPENBLAS_NUM_THREADS'), gc.get_threshold()[0])\n"
    script = (
        f"import gc, os, sys\n{state}import foldwire as fw\nfw.Network\n{state}"
        f"from foldwire.__main__ import main\nsys.argv = ['foldwire', '--help']\nmain()\n{state}"
    )
    environment = {key: value for key, value in os.environ.items() if "OPENBLAS" not in key}

    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )

    fresh, imported, *_, settled = done.stdout.splitlines()
    assert fresh == imported and fresh.startswith("None ")
    assert settled == "1 100000"
