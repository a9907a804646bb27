# SPDX-License-Identifier: Apache-2.0
"""Bad parameters are refused in the same way and the same words, whatever they are."""

import numpy as np
import pytest

from hw.common.params import (
    preset_of,
    require,
    require_choice,
    require_field,
    require_int,
    require_type,
)


class Tank:
    depth = 3


@pytest.mark.parametrize(
    "check, error, message",
    [
        (lambda: require_int("Tank depth", 0), ValueError, "an integer at least 1, not 0"),
        (lambda: require_int("Tank depth", 9, maximum=8), ValueError,
         "an integer from 1 to 8, not 9"),
        (lambda: require_int("Tank depth", 6, power_of_two=True), ValueError,
         "a power of two at least 1, not 6"),
        (lambda: require_int("Tank depth", 6, multiple_of=4), ValueError,
         "a multiple of 4 at least 1, not 6"),
        (lambda: require_int("Tank depth", "8"), TypeError, "an integer at least 1, not '8'"),
        (lambda: require_int("Tank depth", 8.0), TypeError, "an integer at least 1, not 8.0"),
        (lambda: require_int("Tank depth", True), TypeError, "an integer at least 1, not True"),
        (lambda: require_choice("Tank depth", 3, (1, 2)), ValueError, "one of 1, 2, not 3"),
        (lambda: require_choice("Tank depth", "1", (1, 2)), TypeError, "one of 1, 2, not '1'"),
        (lambda: require_choice("Tank depth", True, (1, 2)), TypeError, "one of 1, 2, not True"),
        (lambda: require_choice("Tank depth", 1.0, (1, 2)), TypeError, "one of 1, 2, not 1.0"),
        (lambda: require_choice("Tank depth", "c", "ab"), ValueError, "one of 'a', 'b', not 'c'"),
        (lambda: require_choice("Tank depth", None, "ab"), TypeError, "one of 'a', 'b', not None"),
        (lambda: require_type("Tank depth", 1, bool), TypeError, "a bool, not 1"),
        (lambda: require_type("Tank depth", "x", int), TypeError, "an int, not 'x'"),
        (lambda: require(False, "Tank depth", "even", 3), ValueError, "even, not 3"),
    ],
)
def test_message_names_parameter_what_is_allowed_and_value(check, error, message):
    with pytest.raises(error) as refused:
        check()

    assert str(refused.value) == f"Tank depth must be {message}"


def test_what_is_allowed_comes_back():
    assert require_int("Tank depth", np.int64(8), power_of_two=True, maximum=8) == 8
    assert type(require_int("Tank depth", np.int64(8))) is int
    assert require_int("Tank depth", 12, minimum=4, multiple_of=4) == 12
    assert require_choice("Tank depth", np.uint8(2), (1, 2)) == 2
    assert require_choice("Tank kind", "b", {"a": 1, "b": 2}) == "b"
    assert require_type("Tank open", True, bool) is True
    require(True, "Tank depth", "even", 4)


def test_field_of_a_configuration_is_called_by_its_own_name():
    assert require_field(Tank(), "depth", 1, 3) == 3
    with pytest.raises(ValueError, match=r"^depth must be a power of two from 1 to 4, not 3$"):
        require_field(Tank(), "depth", 1, 4, power_of_two=True)


def test_a_preset_is_found_by_its_name():
    preset = preset_of({"small": 1, "large": 100})

    assert preset("large") == 100
    with pytest.raises(ValueError, match=r"^preset must be one of 'small', 'large', not 'huge'$"):
        preset("huge")
