/* SPDX-License-Identifier: Apache-2.0 */
// Types and functions of the generated C++, for several instances at a time: a word is a vector
// with a 64-bit number for each of them. A truth is 0 or 1 in each lane, as in scalar.h.

#ifndef FOLDWIRE_LANES_H
#define FOLDWIRE_LANES_H

#include <type_traits>
#include <utility>

#include "words.h"

#if defined(__AVX__)
#include <immintrin.h>
#endif

// Compilers would not inline that much of their own accord.
#define INLINE inline __attribute__((always_inline))

namespace foldwire {

constexpr int lanes = FOLDWIRE_LANES;

// Vectors of the compiler: it uses what the processor has, plain words at the least.
template<class T>
struct Lanes {
	typedef T Vector __attribute__((vector_size(lanes * sizeof(T))));
	Vector v;

	Lanes() = default;
	INLINE Lanes(Vector vector) : v(vector) {}
	template<class I, class = std::enable_if_t<std::is_integral<I>::value>>
	INLINE Lanes(I value) : v(Vector{} + T(value)) {}
	template<class O>
	INLINE explicit Lanes(const Lanes<O> &other) : v((Vector)other.v) {}
};

using word = Lanes<u64>;
using sword = Lanes<i64>;
// For values of up to 32 bits.
using narrow = word;

// A value is kept as it is computed: compilers convert vectors of small integers lane by lane.
template<class T>
using stored = word;

#define FOLDWIRE_OPERATOR(sign) \
	static INLINE word operator sign(const word &a, const word &b) { return a.v sign b.v; }
FOLDWIRE_OPERATOR(+)
FOLDWIRE_OPERATOR(-)
FOLDWIRE_OPERATOR(*)
FOLDWIRE_OPERATOR(&)
FOLDWIRE_OPERATOR(|)
FOLDWIRE_OPERATOR(^)
#undef FOLDWIRE_OPERATOR
static INLINE word operator~(const word &a) { return ~a.v; }
static INLINE word operator<<(const word &a, int n) { return a.v << n; }
static INLINE word operator<<(const word &a, const word &n) { return a.v << n.v; }
static INLINE word operator>>(const word &a, const word &n) { return a.v >> n.v; }
static INLINE word operator>>(const word &a, int n) { return a.v >> n; }
static INLINE sword operator>>(const sword &a, int n) { return a.v >> n; }

#define FOLDWIRE_COMPARISON(sign)                                           \
	static INLINE word operator sign(const word &a, const word &b) {        \
		return word::Vector(a.v sign b.v) & 1;                              \
	}                                                                       \
	static INLINE word operator sign(const sword &a, const sword &b) {      \
		return word::Vector(a.v sign b.v) & 1;                              \
	}
FOLDWIRE_COMPARISON(==)
FOLDWIRE_COMPARISON(!=)
FOLDWIRE_COMPARISON(<)
FOLDWIRE_COMPARISON(<=)
FOLDWIRE_COMPARISON(>)
FOLDWIRE_COMPARISON(>=)
#undef FOLDWIRE_COMPARISON

// True if any lane is not zero.
static INLINE bool any(const word &a) {
#if defined(__AVX512F__) && FOLDWIRE_LANES == 8
	return _mm512_test_epi64_mask((__m512i)a.v, (__m512i)a.v) != 0;
#elif defined(__AVX__) && FOLDWIRE_LANES == 8
	__m256i halves[2];
	std::memcpy(halves, &a, sizeof a);
	const __m256i some = _mm256_castpd_si256(_mm256_or_pd(
		_mm256_castsi256_pd(halves[0]), _mm256_castsi256_pd(halves[1])));
	return !_mm256_testz_si256(some, some);
#elif defined(__AVX__) && FOLDWIRE_LANES == 4
	return !_mm256_testz_si256((__m256i)a.v, (__m256i)a.v);
#else
	u64 some = 0;
#pragma GCC unroll 16
	for (int lane = 0; lane < lanes; lane++)
		some |= a.v[lane];
	return some != 0;
#endif
}
static INLINE bool all(const word &truth) { return !any(truth ^ 1); }

static INLINE word choose(const word &truth, const word &when, const word &other) {
	return truth.v != 0 ? when.v : other.v;
}

// Assigns; a value that has changed in any lane marks its readers dirty.
static INLINE void update(word &at, const word &value, u64 &dirty, u64 readers) {
	dirty |= any(at ^ value) ? readers : 0;
	at = value;
}

// The same for inputs of one function: touched is not zero if a value has changed.
static INLINE void put(word &at, const word &value, u64 &touched) {
	touched |= any(at ^ value);
	at = value;
}

static INLINE word parity(word a) {
	for (int half = 32; half; half /= 2)
		a = a ^ a >> half;
	return a & 1;
}

static INLINE word shl(const word &a, const word &n) {
	return choose(n > 63, 0, word(a.v << (n & 63).v));
}
static INLINE word shr(const word &a, const word &n) {
	return choose(n > 63, 0, word(a.v >> (n & 63).v));
}
static INLINE word sshr(const word &a, const word &n) {
	return word(sword(sword(a).v >> sword(choose(n > 63, 63, n)).v));
}
static INLINE word shift(const word &a, const sword &n) {
	return choose(n < sword(0), shl(a, 0 - word(n)), shr(a, word(n)));
}

// Copies the next state to the state; returns true if they differed.
template<class State>
static inline bool take_over(State &state, const State &next) {
	if (!std::memcmp(&state, &next, sizeof state))
		return false;
	state = next;
	return true;
}

// The words of the ports of a model, for each lane.
struct Inputs {
	const uint32_t *lane[lanes];
};
struct Outputs {
	uint32_t *lane[lanes];
};
static INLINE word taken(const Inputs &in, int place) {
	u64 values[lanes];
#pragma GCC unroll 16
	for (int lane = 0; lane < lanes; lane++)
		values[lane] = in.lane[lane][place];
	word taken;
	std::memcpy(&taken, values, sizeof taken);
	return taken;
}
static INLINE void give(const Outputs &out, int place, const word &value) {
#pragma GCC unroll 16
	for (int lane = 0; lane < lanes; lane++)
		out.lane[lane][place] = uint32_t(value.v[lane]);
}

// A memory: for each lane rows of words.
template<class T, int Size, int Words>
struct Rows {
	T at[lanes][Size][Words] = {};

	INLINE word read(const word &row, int index) const {
		u64 values[lanes];
#pragma GCC unroll 16
		for (int lane = 0; lane < lanes; lane++)
			values[lane] = at[lane][row.v[lane]][index];
		word found;
		std::memcpy(&found, values, sizeof found);
		return found;
	}
	// Zero for a row outside the memory.
	INLINE word checked_read(const word &row, int index) const {
		const word inside = row < Size;
		return choose(inside, read(choose(inside, row, 0), index), 0);
	}
	// True if a row has changed: queues write their input in every cycle, idle ones the same.
	INLINE bool write(const word &on, const word &row, int index, const word &value) {
		bool changed = false;
#pragma GCC unroll 16
		for (int lane = 0; lane < lanes; lane++)
			if (on.v[lane])
				changed |= std::exchange(at[lane][row.v[lane]][index], T(value.v[lane])) != T(value.v[lane]);
		return changed;
	}
	INLINE bool write(const word &on, const word &row, int index, const word &value, const word &enable) {
		bool changed = false;
#pragma GCC unroll 16
		for (int lane = 0; lane < lanes; lane++)
			if (on.v[lane]) {
				T &there = at[lane][row.v[lane]][index];
				const T now = T((there & ~enable.v[lane]) | (value.v[lane] & enable.v[lane]));
				changed |= std::exchange(there, now) != now;
			}
		return changed;
	}
	void fill(int row, int index, u64 value) {
		for (int lane = 0; lane < lanes; lane++)
			at[lane][row][index] = T(value);
	}
};

// Numbers of several words.

template<int N>
static INLINE void add(word *y, const word *a, const word *b) {
	word carry = 0;
	for (int i = 0; i < N; i++) {
		const word half = a[i] + b[i], sum = half + carry;
		carry = word(half < a[i]) | word(sum < half);
		y[i] = sum;
	}
}

template<int N>
static INLINE void sub(word *y, const word *a, const word *b) {
	word borrow = 0;
	for (int i = 0; i < N; i++) {
		const word half = a[i] - b[i];
		const word less = word(a[i] < b[i]) | word(half < borrow);
		y[i] = half - borrow;
		borrow = less;
	}
}

template<int N>
static INLINE void neg(word *y, const word *a) {
	word zero[N];
	for (int i = 0; i < N; i++)
		zero[i] = 0;
	sub<N>(y, zero, a);
}

template<int N>
static INLINE word less(const word *a, const word *b) {
	word less = a[0] < b[0];
	for (int i = 1; i < N; i++)
		less = choose(a[i] == b[i], less, a[i] < b[i]);
	return less;
}

template<int N>
static INLINE word less_signed(const word *a, const word *b) {
	return choose(a[N - 1] == b[N - 1], less<N>(a, b), sword(a[N - 1]) < sword(b[N - 1]));
}

// Rare operations are done lane by lane.
template<int N, class Function>
static INLINE void each_lane(word *y, const word *a, const word *b, Function function) {
	u64 results[N], left[N], right[N];
	for (int lane = 0; lane < lanes; lane++) {
		for (int i = 0; i < N; i++) {
			left[i] = a[i].v[lane];
			right[i] = b[i].v[lane];
		}
		function(results, left, right);
		for (int i = 0; i < N; i++)
			y[i].v[lane] = results[i];
	}
}

#define FOLDWIRE_EACH_LANE(name)                                                      \
	template<int N>                                                                   \
	static INLINE void name(word *y, const word *a, const word *b) {                  \
		each_lane<N>(y, a, b, [](u64 *result, const u64 *left, const u64 *right) {    \
			name<N>(result, left, right);                                             \
		});                                                                           \
	}
FOLDWIRE_EACH_LANE(mul)
FOLDWIRE_EACH_LANE(div)
FOLDWIRE_EACH_LANE(mod)
FOLDWIRE_EACH_LANE(divfloor)
FOLDWIRE_EACH_LANE(modfloor)
FOLDWIRE_EACH_LANE(div_signed)
FOLDWIRE_EACH_LANE(mod_signed)
FOLDWIRE_EACH_LANE(divfloor_signed)
FOLDWIRE_EACH_LANE(modfloor_signed)
#undef FOLDWIRE_EACH_LANE

#define FOLDWIRE_EACH_LANE(name, amount, type)                                        \
	template<int N>                                                                   \
	static INLINE void name(word *y, const word *a, const amount &n) {                \
		word far[N];                                                                  \
		far[0] = word(n);                                                             \
		each_lane<N>(y, a, far, [](u64 *result, const u64 *value, const u64 *by) {    \
			name<N>(result, value, type(by[0]));                                      \
		});                                                                           \
	}
FOLDWIRE_EACH_LANE(shl, word, u64)
FOLDWIRE_EACH_LANE(shr, word, u64)
FOLDWIRE_EACH_LANE(sshr, word, u64)
FOLDWIRE_EACH_LANE(shift, sword, i64)
#undef FOLDWIRE_EACH_LANE

} // namespace foldwire

#endif
