# SPDX-License-Identifier: Apache-2.0
"""What was found out once is known afterwards, unless it is asked for anew."""

import pytest

from bench._verdicts import Verdicts


def test_a_verdict_is_known_to_all_who_look_into_the_folder(tmp_path):
    Verdicts(tmp_path / "there").put("a", {"proved": True})

    assert Verdicts(tmp_path / "there").get("a") == {"proved": True}
    assert Verdicts(tmp_path / "there").get("b") is None
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["a.json"]


def test_anew_only_what_was_put_since_is_known(tmp_path):
    Verdicts(tmp_path).put("a", {"proved": True})
    anew = Verdicts(tmp_path, anew=True)

    assert anew.get("a") is None
    anew.put("a", {"proved": False})
    assert anew.get("a") == Verdicts(tmp_path).get("a") == {"proved": False}


@pytest.mark.parametrize("text", ["", '{"proved": tr', "[]", "\x00"])
def test_a_damaged_verdict_is_none(tmp_path, text):
    (tmp_path / "a.json").write_text(text)

    assert Verdicts(tmp_path).get("a") is None
