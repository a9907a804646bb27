# SPDX-License-Identifier: Apache-2.0
"""Files that several processes write are whole at any time."""

import subprocess
import sys
from pathlib import Path

from gen.folder import replace_text

OTHER = """
import sys
from pathlib import Path
from gen.folder import replace_text
replace_text(Path(sys.argv[1]), "theirs")
"""


def test_a_file_that_two_processes_write_at_once_is_whole_at_any_time(tmp_path, monkeypatch):
    path = tmp_path / "made.v"
    replace_text(path, "old")
    seen = []

    def slowly(draft, text, *, encoding):
        """Half of it, then comes another process, then the rest."""
        with draft.open("w", encoding=encoding) as file:
            file.write(text[:4])
        seen.append(path.read_text())
        subprocess.run([sys.executable, "-c", OTHER, str(path)], check=True,
                       cwd=Path(__file__).parents[2])
        seen.append(path.read_text())
        with draft.open("a", encoding=encoding) as file:
            file.write(text[4:])

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", slowly)
        replace_text(path, "ours, and longer")

    assert [*seen, path.read_text()] == ["old", "theirs", "ours, and longer"]
    assert list(tmp_path.iterdir()) == [path]
