// What the text of a model is written in, for models of one instance: a word is a 64-bit number.
// lanes.h has the same names for several instances at a time.

#ifndef FOLDWIRE_SCALAR_H
#define FOLDWIRE_SCALAR_H

#include <type_traits>

#include "words.h"

namespace foldwire {

constexpr int lanes = 1;

using word = u64;
using sword = i64;
// For values of up to 32 bits.
using narrow = uint32_t;

// How a value is kept, in the smallest integer that holds it.
template<class T>
using stored = T;

static inline bool any(u64 a) { return a != 0; }

// A macro, since only the arm that is chosen shall be computed.
#define choose(select, when, other) ((select) ? word(when) : word(other))

// A changed value marks what depends on it. Whether it changes is hard to foresee: no branch.
template<class T>
static inline void update(T &at, u64 value, u64 &dirty, u64 readers) {
	const T now = T(value);
	dirty |= readers & (0 - u64(at != now));
	at = now;
}

// The same for what `tick` alone reads: it is compared with what it has seen.
#define put(at, value, touched) at = value

typedef u64 Block __attribute__((vector_size(32)));

static inline u64 some(const Block &block) { return block[0] | block[1] | block[2] | block[3]; }

template<class T>
static inline T taken_from(const void *data, size_t at) {
	T value;
	std::memcpy(&value, static_cast<const char *>(data) + at, sizeof value);
	return value;
}

// Whether two arrays of words differ.
template<size_t Words>
static inline bool differ(const u64 (&a)[Words], const u64 (&b)[Words]) {
	constexpr size_t blocks = Words * sizeof(u64) / sizeof(Block);
	u64 differs = 0;
	for (size_t i = blocks * sizeof(Block) / sizeof(u64); i < Words; i++)
		differs |= a[i] ^ b[i];
	if (blocks) {
		Block wide = {};
		for (size_t at = 0; at < blocks * sizeof(Block); at += sizeof(Block))
			wide |= taken_from<Block>(a, at) ^ taken_from<Block>(b, at);
		differs |= some(wide);
	}
	return differs != 0;
}

#define unlikely(truth) __builtin_expect((truth) != 0, 0)

// Makes the state the next one, both of whole words; whether they differed.
template<class State>
static inline bool take_over(State &state, const State &next) {
	constexpr size_t end = sizeof(State) / sizeof(Block) * sizeof(Block);
	char *to = reinterpret_cast<char *>(&state);
	u64 differs = 0;
	for (size_t at = end; at < sizeof(State); at += sizeof(u64)) {
		const u64 now = taken_from<u64>(&next, at);
		differs |= taken_from<u64>(to, at) ^ now;
		std::memcpy(to + at, &now, sizeof now);
	}
	if (end) {
		Block wide = {};
		for (size_t at = 0; at < end; at += sizeof(Block)) {
			const Block now = taken_from<Block>(&next, at);
			wide |= taken_from<Block>(to, at) ^ now;
			std::memcpy(to + at, &now, sizeof now);
		}
		differs |= some(wide);
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
	// Zero outside.
	word checked_read(word row, int index) const { return row < Size ? at[row][index] : 0; }
	void write(word on, word row, int index, word value) {
		if (on)
			at[row][index] = T(value);
	}
	void write(word on, word row, int index, word value, word enable) {
		if (on)
			at[row][index] = T((at[row][index] & ~enable) | (value & enable));
	}
	void fill(int row, int index, u64 value) { at[row][index] = T(value); }
};

} // namespace foldwire

#endif
