# SPDX-License-Identifier: Apache-2.0
"""Trials of mutants in copies of the tree: do they change the hardware, and do tests kill them?"""

import contextlib
import hashlib
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench._verdicts import Verdicts
from bench.mutation.blocks import Block
from bench.mutation.draw import Mutant
from bench.mutation.proof import equivalent
from gen.cache import default_cache_dir

__all__ = ["Lane", "Outcome", "Store", "digest_of_tests", "killed_by", "lane", "try_mutant"]

_LEFT_OUT = (".git", ".venv", "build", "__pycache__", "*.egg-info", ".pytest_cache", ".ruff_cache")
_NO_SUCH_TEST = 4  # pytest's status for wrong arguments
_FAILED = (1, 2)  # a test failed, or could not be collected
_WAITING = 4
"""Limit of wall time, as a multiple of CPU time: a process that waits for ever uses none."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Verdict on a mutant.

    Members
    -------
    verdict:
        ``killed``, ``equivalent``, ``survived``, ``timeout``; or, not counted, ``idle`` (no design
        of its block changes) and ``stillborn`` (the designs cannot be built with it).
    how:
        The test that failed, or the proof.
    seconds:
        Run time of the tests.
    source, tests:
        Digests of the code of the original file and of the tests that the verdict depends on, see
        `Judge`.
    """

    verdict: str
    how: str = ""
    seconds: float = 0.0
    source: str = ""
    tests: str = ""


def killed_by(outcome: Outcome) -> str:
    """The file of the test that killed a mutant."""
    return outcome.how.split("::")[0]


class Store:
    """Outcomes in the user's cache, by the identity of the mutant; *anew* ignores earlier ones."""

    def __init__(self, folder: Path | None = None, *, anew: bool = False) -> None:
        self._kept = Verdicts(folder or default_cache_dir() / "mutants", anew=anew)

    def get(self, mutant: Mutant) -> Outcome | None:
        """Return the stored outcome, from any state of the sources; None if there is none."""
        try:
            return Outcome(**(self._kept.get(mutant.identity) or {}))
        except TypeError:
            return None

    def put(self, mutant: Mutant, outcome: Outcome) -> None:
        """Store *outcome*."""
        self._kept.put(mutant.identity, asdict(outcome))

    def passed(self, state: str) -> bool:
        """True if a test passed on the unchanged tree; *state* identifies both."""
        return self._kept.get(f"passed-{state}") is not None

    def note_passed(self, state: str) -> None:
        """Record that the test passed on the unchanged tree."""
        self._kept.put(f"passed-{state}", {})


def digest_of_tests(root: Path, tests: Iterable[str]) -> str:
    """Twelve hexadecimal digits of test files and the helper modules beside them."""
    found = hashlib.sha256()
    chosen = {root / path for path in tests}
    folders = {path.parent for path in chosen} | {root / "tests" / "hw" / "common"}
    beside = {path for folder in folders for path in folder.glob("*.py")
              if not path.name.startswith("test_")}
    for path in sorted(chosen | beside):
        found.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return found.hexdigest()[:12]


@contextlib.contextmanager
def lane(root: Path, warm: Path | None = None) -> Iterator["Lane"]:
    """A copy of the tree at *root* with a cache of its own; both are deleted on exit."""
    with TemporaryDirectory(prefix="foldwire-mutants-") as folder:
        made = Lane(root, Path(folder), default_cache_dir() if warm is None else warm)
        try:
            yield made
        finally:
            made.stop()


class Lane:
    """A copy of the tree, with at most one process at work in it.

    Parameters
    ----------
    root:
        The tree.
    folder:
        Folder of the copy and its cache.
    warm:
        A cache with whose files the lane's own one starts.
    """

    def __init__(self, root: Path, folder: Path, warm: Path) -> None:
        self.tree = folder / "tree"
        self._cache = folder / "cache"
        self._warm = warm
        self._process: subprocess.Popen[str] | None = None
        shutil.copytree(root, self.tree, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        self._fresh_cache()

    def stop(self) -> None:
        """Kill the running process."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def emit(self, designs: str, folder: Path) -> str | None:
        """Write the designs of the tree as it is; return None, or the output if building fails."""
        status, text = self._run(["bench.mutation.designs", designs, str(folder)], timeout=300)
        return None if status == 0 else text[-2000:] or "no end in 300 s"

    def first_failure(
        self, tests: Sequence[str], *, timeout: float, shared: bool = False
    ) -> str | None:
        """Run tests; return the first that fails, empty if all pass, None if time runs out.

        *timeout* is in seconds of CPU time, so that other work on the machine kills no mutant.

        Compiled models go to the lane's own cache or, if *shared*, to the one that it started with.

        Raises
        ------
        LookupError
            There is no such test.
        RuntimeError
            pytest did not get as far as running tests.
        """
        command = ["pytest", "-x", "-q", "-rfE", "--tb=line", "-p", "no:cacheprovider", *tests]
        status, text = self._run(command, timeout=timeout, shared=shared)
        if status is None:
            return None
        if status == 0:
            return ""
        # Parameters in the name of a test may contain spaces.
        found = re.search(r"^(?:FAILED|ERROR) ([^\s[]+(?:\[.*?\])?)(?: - |$)", text, re.MULTILINE)
        if status not in _FAILED or found is None:
            kind = LookupError if status == _NO_SUCH_TEST else RuntimeError
            raise kind(f"pytest ended with status {status}:\n{text[-2000:]}")
        return found.group(1)

    @contextlib.contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """The tree with *mutant* in it, and a cache that nothing else has used."""
        path = self.tree / mutant.path
        original = path.read_bytes()
        try:
            self._replace(path, mutant.source.encode())
            yield
        finally:
            self._replace(path, original)
            self._fresh_cache()

    def _replace(self, path: Path, text: bytes) -> None:
        path.write_bytes(text)
        # Python tells stale compiled files by size and modification time in seconds only.
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()

    def _fresh_cache(self) -> None:
        shutil.rmtree(self._cache, ignore_errors=True)
        shutil.rmtree(self.tree / "build", ignore_errors=True)
        self._cache.mkdir(parents=True)
        # Other processes use that cache; files that they remove meanwhile are not needed.
        for folder, _, names in os.walk(self._warm):
            inside = Path(folder).relative_to(self._warm)
            if inside.parts[:1] == ("mutants",):
                continue
            (self._cache / inside).mkdir(parents=True, exist_ok=True)
            for name in names:
                path, target = Path(folder, name), self._cache / inside / name
                if path.suffix == ".lock":
                    continue
                with contextlib.suppress(FileNotFoundError):
                    _link(path, target)

    def _run(
        self, module: Sequence[str], *, timeout: float, shared: bool = False
    ) -> tuple[int | None, str]:
        """Status and output of ``python -m module``; no status after *timeout* seconds of CPU."""
        environment = os.environ | {
            "PYTHONPATH": str(self.tree),
            "FOLDWIRE_CACHE": str(self._warm if shared else self._cache),
            "PYTEST_ADDOPTS": "",
        }
        with TemporaryDirectory(dir=self._cache.parent) as scratch:
            environment["TMPDIR"] = scratch
            self._process = process = subprocess.Popen(
                [sys.executable, "-m", *module], cwd=self.tree, env=environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            )
            # A limit per process, so a compiler's time does not count as a test's.
            seconds = math.ceil(timeout)
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (seconds, seconds))
            try:
                text, _ = process.communicate(timeout=_WAITING * timeout)
            except subprocess.TimeoutExpired:
                self.stop()
                process.communicate()
                return None, ""
            self._process = None
            if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
                return None, ""
            return process.returncode, text


def _link(path: Path, target: Path) -> None:
    """Hard-link a file, or copy it to another disk."""
    try:
        os.link(path, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copy2(path, target)


def try_mutant(
    lane: Lane, mutant: Mutant, block: Block, before: Path, known: Outcome | None, *,
    timeout: float, source: str,
) -> Outcome:
    """Judge *mutant* in *lane*.

    Parameters
    ----------
    before:
        Folder with the designs of the unchanged tree.
    known:
        Its outcome with other tests or other sources around it: the test that killed it then is
        run first.
    timeout:
        Seconds of CPU time for the tests.
    source:
        Digest that is stored with the outcome.
    """
    kept: dict[str, Any] = {"source": source}
    with TemporaryDirectory() as scratch, lane.mutated(mutant):
        after = Path(scratch)
        trouble = lane.emit(block.designs, after)
        if trouble is not None:
            return Outcome(verdict="stillborn", how=trouble.strip().splitlines()[-1], **kept)
        pairs = [(path, after / path.name) for path in sorted(before.glob("*.il"))]
        if all(one.read_bytes() == other.read_bytes() for one, other in pairs):
            return Outcome(verdict="idle", **kept)
        begin = time.monotonic()
        failed: str | None = ""
        if known is not None and killed_by(known) in block.test_paths():
            with contextlib.suppress(LookupError):
                failed = lane.first_failure([known.how], timeout=timeout)
        if failed == "":
            failed = lane.first_failure(block.test_paths(), timeout=timeout)
        kept["seconds"] = round(time.monotonic() - begin, 1)
        if failed:
            return Outcome(verdict="killed", how=failed, **kept)
        proof = equivalent(pairs)
        if proof is not None:
            return Outcome(verdict="equivalent", how=f"proved equal {proof}", **kept)
        return Outcome(verdict="timeout" if failed is None else "survived", **kept)
