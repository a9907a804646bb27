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

// A changed value marks what depends on it.
template<class T>
static inline void update(T &at, u64 value, u64 &dirty, u64 readers) {
	const T now = T(value);
	dirty |= at != now ? readers : 0;
	at = now;
}

// The same for what `tick` alone reads: it is compared with what it has seen.
#define put(at, value, touched) at = value

template<size_t Words>
static inline bool differ(const u64 (&a)[Words], const u64 (&b)[Words]) {
	u64 some = 0;
	for (size_t i = 0; i < Words; i++)
		some |= a[i] ^ b[i];
	return some != 0;
}

#define unlikely(truth) __builtin_expect((truth) != 0, 0)

// Makes the state the next one; whether they differed.
template<class State>
static inline bool take_over(State &state, const State &next) {
	typedef u64 Block __attribute__((vector_size(32)));
	constexpr size_t blocks = sizeof(State) / sizeof(Block);
	char *to = reinterpret_cast<char *>(&state);
	const char *from = reinterpret_cast<const char *>(&next);
	Block differs = {};
	for (size_t i = 0; i < blocks; i++) {
		Block old, now;
		std::memcpy(&old, to + i * sizeof old, sizeof old);
		std::memcpy(&now, from + i * sizeof now, sizeof now);
		differs |= old ^ now;
		std::memcpy(to + i * sizeof now, &now, sizeof now);
	}
	u64 some = differs[0] | differs[1] | differs[2] | differs[3];
	for (size_t i = blocks * sizeof(Block); i < sizeof(State); i += sizeof(u64)) {
		u64 old, now;
		std::memcpy(&old, to + i, sizeof old);
		std::memcpy(&now, from + i, sizeof now);
		some |= old ^ now;
		std::memcpy(to + i, &now, sizeof now);
	}
	return some != 0;
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
