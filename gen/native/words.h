/* SPDX-License-Identifier: Apache-2.0 */
// Arithmetic on 64-bit words and on arrays of them, least significant first, for the models of
// gen/native.

#ifndef FOLDWIRE_WORDS_H
#define FOLDWIRE_WORDS_H

#include <cstdint>
#include <cstring>

namespace foldwire {

using u64 = uint64_t;
using i64 = int64_t;

static inline u64 parity(u64 a) { return u64(__builtin_parityll(a)); }

static inline u64 shl(u64 a, u64 n) { return n > 63 ? 0 : a << n; }
static inline u64 shr(u64 a, u64 n) { return n > 63 ? 0 : a >> n; }
static inline u64 sshr(u64 a, u64 n) { return u64(i64(a) >> (n > 63 ? 63 : n)); }
// To the right, or to the left by a negative amount.
static inline u64 shift(u64 a, i64 n) { return n < 0 ? shl(a, 0 - u64(n)) : shr(a, u64(n)); }

template<int N>
static inline void shl(u64 *y, const u64 *a, u64 n) {
	const u64 words = n / 64;
	const int bits = int(n % 64);
	for (int i = N - 1; i >= 0; i--) {
		const u64 high = u64(i) >= words ? a[i - words] : 0;
		const u64 low = u64(i) > words ? a[i - words - 1] : 0;
		y[i] = bits ? high << bits | low >> (64 - bits) : high;
	}
}

template<int N>
static inline void shr_filled(u64 *y, const u64 *a, u64 n, u64 fill) {
	const u64 words = n / 64;
	const int bits = int(n % 64);
	for (int i = 0; i < N; i++) {
		const u64 low = words < u64(N - i) ? a[i + words] : fill;
		const u64 high = words + 1 < u64(N - i) ? a[i + words + 1] : fill;
		y[i] = bits ? low >> bits | high << (64 - bits) : low;
	}
}

template<int N>
static inline void shr(u64 *y, const u64 *a, u64 n) { shr_filled<N>(y, a, n, 0); }
template<int N>
static inline void sshr(u64 *y, const u64 *a, u64 n) {
	shr_filled<N>(y, a, n, u64(i64(a[N - 1]) >> 63));
}
template<int N>
static inline void shift(u64 *y, const u64 *a, i64 n) {
	if (n < 0)
		shl<N>(y, a, 0 - u64(n));
	else
		shr<N>(y, a, u64(n));
}

template<int N>
static inline void add(u64 *y, const u64 *a, const u64 *b) {
	u64 carry = 0;
	for (int i = 0; i < N; i++) {
		const unsigned __int128 sum = (unsigned __int128)a[i] + b[i] + carry;
		y[i] = u64(sum);
		carry = u64(sum >> 64);
	}
}

template<int N>
static inline void sub(u64 *y, const u64 *a, const u64 *b) {
	u64 borrow = 0;
	for (int i = 0; i < N; i++) {
		const unsigned __int128 difference = (unsigned __int128)a[i] - b[i] - borrow;
		y[i] = u64(difference);
		borrow = u64(difference >> 64) & 1;
	}
}

template<int N>
static inline void neg(u64 *y, const u64 *a) {
	const u64 zero[N] = {};
	sub<N>(y, zero, a);
}

template<int N>
static inline void mul(u64 *y, const u64 *a, const u64 *b) {
	u64 sum[N] = {};
	for (int i = 0; i < N; i++) {
		u64 carry = 0;
		for (int j = 0; i + j < N; j++) {
			const unsigned __int128 part = (unsigned __int128)a[i] * b[j] + sum[i + j] + carry;
			sum[i + j] = u64(part);
			carry = u64(part >> 64);
		}
	}
	std::memcpy(y, sum, sizeof sum);
}

template<int N>
static inline bool less(const u64 *a, const u64 *b) {
	for (int i = N - 1; i > 0; i--)
		if (a[i] != b[i])
			return a[i] < b[i];
	return a[0] < b[0];
}

template<int N>
static inline bool less_signed(const u64 *a, const u64 *b) {
	if (a[N - 1] != b[N - 1])
		return i64(a[N - 1]) < i64(b[N - 1]);
	return less<N>(a, b);
}

template<int N>
static inline bool is_zero(const u64 *a) {
	u64 any = 0;
	for (int i = 0; i < N; i++)
		any |= a[i];
	return any == 0;
}

// Quotient and remainder, bit by bit beyond one word; both zero for a divisor of zero.
template<int N>
static inline void divide(u64 *quotient, u64 *remainder, const u64 *a, const u64 *b) {
	u64 q[N] = {}, r[N] = {};
	if (!is_zero<N>(b)) {
		if (N == 1) {
			q[0] = a[0] / b[0];
			r[0] = a[0] % b[0];
		} else {
			for (int bit = 64 * N - 1; bit >= 0; bit--) {
				u64 twice[N];
				const bool over = r[N - 1] >> 63;
				shl<N>(twice, r, 1);
				twice[0] |= a[bit / 64] >> bit % 64 & 1;
				const bool fits = over || !less<N>(twice, b);
				if (fits)
					sub<N>(r, twice, b);
				else
					std::memcpy(r, twice, sizeof r);
				q[bit / 64] |= u64(fits) << bit % 64;
			}
		}
	}
	std::memcpy(quotient, q, sizeof q);
	std::memcpy(remainder, r, sizeof r);
}

// Signed numbers: the quotient is cut towards zero, the remainder has the sign of the dividend.
template<int N>
static inline void divide_signed(u64 *quotient, u64 *remainder, const u64 *a, const u64 *b) {
	u64 left[N], right[N];
	const bool a_negative = a[N - 1] >> 63, b_negative = b[N - 1] >> 63;
	std::memcpy(left, a, sizeof left);
	std::memcpy(right, b, sizeof right);
	if (a_negative)
		neg<N>(left, a);
	if (b_negative)
		neg<N>(right, b);
	divide<N>(quotient, remainder, left, right);
	if (a_negative != b_negative) {
		std::memcpy(left, quotient, sizeof left);
		neg<N>(quotient, left);
	}
	if (a_negative) {
		std::memcpy(left, remainder, sizeof left);
		neg<N>(remainder, left);
	}
}

// Towards minus infinity; the remainder has the sign of the divisor.
template<int N>
static inline void divide_floor(u64 *quotient, u64 *remainder, const u64 *a, const u64 *b) {
	divide_signed<N>(quotient, remainder, a, b);
	if ((a[N - 1] ^ b[N - 1]) >> 63 && !is_zero<N>(remainder)) {
		const u64 one[N] = {1};
		u64 old[N];
		std::memcpy(old, quotient, sizeof old);
		sub<N>(quotient, old, one);
		std::memcpy(old, remainder, sizeof old);
		add<N>(remainder, old, b);
	}
}

#define FOLDWIRE_DIVISION(name, function, result)                     \
	template<int N>                                                   \
	static inline void name(u64 *y, const u64 *a, const u64 *b) {     \
		u64 quotient[N], remainder[N];                                \
		function<N>(quotient, remainder, a, b);                       \
		std::memcpy(y, result, sizeof quotient);                      \
	}
FOLDWIRE_DIVISION(div, divide, quotient)
FOLDWIRE_DIVISION(mod, divide, remainder)
FOLDWIRE_DIVISION(divfloor, divide, quotient)
FOLDWIRE_DIVISION(modfloor, divide, remainder)
FOLDWIRE_DIVISION(div_signed, divide_signed, quotient)
FOLDWIRE_DIVISION(mod_signed, divide_signed, remainder)
FOLDWIRE_DIVISION(divfloor_signed, divide_floor, quotient)
FOLDWIRE_DIVISION(modfloor_signed, divide_floor, remainder)
#undef FOLDWIRE_DIVISION

} // namespace foldwire

#endif
