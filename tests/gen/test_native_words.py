# SPDX-License-Identifier: Apache-2.0
"""What the text of native models is written in: comparing and taking over words."""

import subprocess
from pathlib import Path

import pytest

import gen.native
from gen.compiler import find_compiler

HEADERS = Path(gen.native.__file__).parent

PROGRAM = """
#include "scalar.h"
#include <cstdio>
using namespace foldwire;

template<size_t Words>
struct State { u64 word[Words]; };

// Every byte of Words words, changed alone, is seen, and taken over.
template<size_t Words>
int wrong() {
	int found = 0;
	State<Words> state = {}, next = {};
	found += take_over(state, next);
	for (size_t byte = 0; byte < sizeof state; byte++) {
		reinterpret_cast<unsigned char *>(&next)[byte] += byte + 1;
		found += !differ(state.word, next.word) || !differ(next.word, state.word);
		found += !take_over(state, next) || std::memcmp(&state, &next, sizeof state);
		found += differ(state.word, next.word) || take_over(state, next);
	}
	return found;
}

int main() {
	int found = wrong<1>() + wrong<2>() + wrong<3>() + wrong<4>() + wrong<5>() + wrong<7>()
		+ wrong<8>() + wrong<9>() + wrong<13>();
	uint8_t at = 3;
	u64 dirty = 1;
	update(at, 3, dirty, 6);
	found += dirty != 1;
	update(at, 2, dirty, 6);
	found += dirty != 7 || at != 2;
	std::printf("%d\\n", found);
}
"""


@pytest.mark.parametrize("flags", [["-O2"], ["-O0"]], ids=" ".join)
def test_a_change_of_any_byte_of_a_state_is_seen_and_taken_over(tmp_path, flags):
    (tmp_path / "main.cc").write_text(PROGRAM)
    command = [find_compiler()[0], "-std=c++17", "-Wall", "-Werror", *flags, f"-I{HEADERS}",
               str(tmp_path / "main.cc"), "-o", str(tmp_path / "main")]
    subprocess.run(command, check=True)
    done = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True)
    assert done.stdout == "0\n"
