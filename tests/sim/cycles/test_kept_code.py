"""Compiled code is dropped when a file that it calls has changed."""

import os

from sim.cycles.ace.jit import drop_outdated


def test_what_was_kept_before_the_last_change_is_dropped(tmp_path):
    package = tmp_path / "package"
    kept = package / "__pycache__"
    kept.mkdir(parents=True)
    source = package / "blocks.py"
    source.write_text("")
    old, new = kept / "blocks.old.nbi", kept / "blocks.new.nbi"
    for path, time in ((old, 100), (source, 200), (new, 300)):
        path.write_text("")
        os.utime(path, (time, time))
    assert drop_outdated(package) == 1
    assert not old.exists() and new.exists()
    assert drop_outdated(package) == 0
