/* SPDX-License-Identifier: Apache-2.0 */
// Types and functions of the generated C++, for models of one instance: a word is a 64-bit number.
// lanes.h has the same names for several instances at a time.

#ifndef FOLDWIRE_SCALAR_H
#define FOLDWIRE_SCALAR_H

#include <type_traits>
#include <utility>

#include "words.h"

namespace foldwire {

constexpr int lanes = 1;

using word = u64;
using sword = i64;
// For values of up to 32 bits.
using narrow = uint32_t;

// Storage of a value: the smallest integer that holds it.
template<class T>
using stored = T;

static inline bool any(u64 a) { return a != 0; }

// A macro, so that only the chosen arm is computed.
#define choose(select, when, other) ((select) ? word(when) : word(other))

// Assigns; a changed value marks its readers dirty. No branch, since changes are hard to predict.
template<class T>
static inline void update(T &at, u64 value, u64 &dirty, u64 readers) {
	const T now = T(value);
	dirty |= readers & (0 - u64(at != now));
	at = now;
}

// The same for inputs that only `tick` reads: these are compared with those that it saw last.
#define put(at, value, touched) at = value

// Vectors of the compiler, passed by reference: by value, their ABI depends on the processor.
typedef u64 Block __attribute__((vector_size(32)));

static inline u64 some(const Block &block) { return block[0] | block[1] | block[2] | block[3]; }

// The bits in which the next T of two arrays of bytes differ.
template<class T>
static inline void collect(T &differs, const char *a, const char *b) {
	T left, right;
	std::memcpy(&left, a, sizeof left);
	std::memcpy(&right, b, sizeof right);
	differs |= left ^ right;
}

// True if two arrays of words differ.
template<size_t Words>
static inline bool differ(const u64 (&a)[Words], const u64 (&b)[Words]) {
	constexpr size_t end = sizeof a - sizeof a % sizeof(Block);
	const char *left = reinterpret_cast<const char *>(a);
	const char *right = reinterpret_cast<const char *>(b);
	Block wide = {};
	for (size_t at = 0; at < end; at += sizeof wide)
		collect(wide, left + at, right + at);
	u64 differs = end ? some(wide) : 0;
	for (size_t at = end; at < sizeof a; at += sizeof differs)
		collect(differs, left + at, right + at);
	return differs != 0;
}

#define unlikely(truth) __builtin_expect((truth) != 0, 0)

// Copies the next state, of whole words, to the state; returns true if they differed.
template<class State>
static inline bool take_over(State &state, const State &next) {
	constexpr size_t end = sizeof state - sizeof state % sizeof(Block);
	char *to = reinterpret_cast<char *>(&state);
	const char *from = reinterpret_cast<const char *>(&next);
	Block wide = {};
	for (size_t at = 0; at < end; at += sizeof wide) {
		collect(wide, to + at, from + at);
		std::memcpy(to + at, from + at, sizeof wide);
	}
	u64 differs = end ? some(wide) : 0;
	for (size_t at = end; at < sizeof state; at += sizeof differs) {
		collect(differs, to + at, from + at);
		std::memcpy(to + at, from + at, sizeof differs);
	}
	return differs != 0;
}

// The words of the ports of a model.
struct Inputs {
	const uint32_t *lane[lanes];
};
struct Outputs {
	uint32_t *lane[lanes];
};
static inline word taken(const Inputs &in, int place) { return in.lane[0][place]; }
static inline void give(const Outputs &out, int place, word value) {
	out.lane[0][place] = uint32_t(value);
}

// A memory: rows of words.
template<class T, int Size, int Words>
struct Rows {
	T at[Size][Words] = {};

	word read(word row, int index) const { return at[row][index]; }
	// Zero for a row outside the memory.
	word checked_read(word row, int index) const { return row < Size ? at[row][index] : 0; }
	// True if the row has changed: queues write their input in every cycle, idle ones the same.
	bool write(word on, word row, int index, word value) {
		return on && std::exchange(at[row][index], T(value)) != T(value);
	}
	bool write(word on, word row, int index, word value, word enable) {
		return on && write(on, row, index, (at[row][index] & ~enable) | (value & enable));
	}
	void fill(int row, int index, u64 value) { at[row][index] = T(value); }
};

} // namespace foldwire

#endif
