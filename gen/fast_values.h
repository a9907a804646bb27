/* SPDX-License-Identifier: Apache-2.0 */
// Cheaper slices, concatenations and narrow arithmetic for the C++ that CXXRTL writes.
//
// The expression templates of the CXXRTL run-time evaluate a concatenation of n parts in n steps of
// full width, and a slice of a wide value by shifting all of it. Datapaths that are described bit
// by bit then take a compiler many times longer than the rest of a design. These specialisations
// mean the same, and touch each part once. They must be seen before the generated code.

#ifndef FOLDWIRE_FAST_VALUES_H
#define FOLDWIRE_FAST_VALUES_H

#include <cxxrtl/cxxrtl.h>

namespace cxxrtl {

// or_bits<Offset>(target, part): target |= part << Offset, where target is an array of chunks.
template<size_t Offset, size_t Bits>
CXXRTL_ALWAYS_INLINE
void or_bits(chunk_t *target, const value<Bits> &part) {
	constexpr size_t first = Offset / 32, shift = Offset % 32, count = value<Bits>::chunks;
	if constexpr (count == 1) {
		target[first] |= part.data[0] << shift;
		if constexpr (shift + Bits > 32)
			target[first + 1] |= part.data[0] >> ((32 - shift) % 32);
	} else {
		for (size_t n = 0; n < count; n++) {
			target[first + n] |= part.data[n] << shift;
			if (shift && (first + n + 1) * 32 < Offset + Bits)
				target[first + n + 1] |= part.data[n] >> ((32 - shift) % 32);
		}
	}
}

template<size_t Stop, size_t Start, size_t Bits>
CXXRTL_ALWAYS_INLINE
value<Stop - Start + 1> slice_of(const value<Bits> &whole) {
	constexpr size_t first = Start / 32, shift = Start % 32;
	using part = value<Stop - Start + 1>;
	if constexpr (first == Stop / 32) {
		return part{(whole.data[first] >> shift) & part::msb_mask};
	} else {
		part result;
		for (size_t n = 0; n < part::chunks; n++) {
			result.data[n] = whole.data[first + n] >> shift;
			if (shift && first + n + 1 < value<Bits>::chunks)
				result.data[n] |= whole.data[first + n + 1] << ((32 - shift) % 32);
		}
		result.data[part::chunks - 1] &= part::msb_mask;
		return result;
	}
}

template<size_t Bits, size_t Stop, size_t Start>
struct slice_expr<const value<Bits>, Stop, Start>
	: public expr_base<slice_expr<const value<Bits>, Stop, Start>> {
	static constexpr size_t bits = Stop - Start + 1;
	const value<Bits> &expr;

	slice_expr(const value<Bits> &expr) : expr(expr) {}
	slice_expr(const slice_expr &) = delete;

	CXXRTL_ALWAYS_INLINE operator value<bits>() const { return slice_of<Stop, Start>(expr); }
	CXXRTL_ALWAYS_INLINE value<bits> val() const { return slice_of<Stop, Start>(expr); }
};

template<size_t Bits, size_t Stop, size_t Start>
struct slice_expr<value<Bits>, Stop, Start>
	: public expr_base<slice_expr<value<Bits>, Stop, Start>> {
	static constexpr size_t bits = Stop - Start + 1;
	value<Bits> &expr;

	slice_expr(value<Bits> &expr) : expr(expr) {}
	slice_expr(const slice_expr &) = delete;

	CXXRTL_ALWAYS_INLINE operator value<bits>() const { return slice_of<Stop, Start>(expr); }
	CXXRTL_ALWAYS_INLINE value<bits> val() const { return slice_of<Stop, Start>(expr); }

	CXXRTL_ALWAYS_INLINE slice_expr &operator=(const value<bits> &part) {
		constexpr size_t first = Start / 32, last = Stop / 32;
		constexpr chunk_t below = ~(chunk_t(-1) << (Start % 32));
		constexpr chunk_t above = ~(chunk_t(-1) >> (31 - Stop % 32));
		if (first == last) {
			expr.data[first] &= below | above;
		} else {
			expr.data[first] &= below;
			for (size_t n = first + 1; n < last; n++)
				expr.data[n] = 0;
			expr.data[last] &= above;
		}
		or_bits<Start>(expr.data, part);
		return *this;
	}
};

// Everything but a concatenation is evaluated, then placed; a concatenation places its parts.
template<size_t Offset, class T>
struct placed {
	CXXRTL_ALWAYS_INLINE static void put(chunk_t *target, const T &part) {
		or_bits<Offset>(target, static_cast<const value<T::bits> &>(part.val()));
	}
};

template<size_t Offset, class T>
struct placed<Offset, const T> : placed<Offset, T> {};

template<size_t Offset, class T, class U>
struct placed<Offset, concat_expr<T, U>> {
	CXXRTL_ALWAYS_INLINE static void put(chunk_t *target, const concat_expr<T, U> &part) {
		placed<Offset + U::bits, T>::put(target, part.ms_expr);
		placed<Offset, U>::put(target, part.ls_expr);
	}
};

template<class T, class U>
struct joined : public expr_base<concat_expr<T, U>> {
	static constexpr size_t bits = T::bits + U::bits;
	T &ms_expr;
	U &ls_expr;

	joined(T &ms_expr, U &ls_expr) : ms_expr(ms_expr), ls_expr(ls_expr) {}
	joined(const joined &) = delete;

	CXXRTL_ALWAYS_INLINE value<bits> val() const {
		value<bits> result;
		placed<U::bits, T>::put(result.data, ms_expr);
		placed<0, U>::put(result.data, ls_expr);
		return result;
	}
	CXXRTL_ALWAYS_INLINE operator value<bits>() const { return val(); }

	CXXRTL_ALWAYS_INLINE void assign(const value<bits> &whole) {
		ms_expr = slice_of<bits - 1, U::bits>(whole);
		ls_expr = slice_of<U::bits - 1, 0>(whole);
	}
};

// A specialisation for each kind of right-hand part, since one for all would be the primary again.
#define FOLDWIRE_CONCAT(parameters, right)                                          \
	template<class T, parameters>                                                   \
	struct concat_expr<T, right> : public joined<T, right> {                        \
		using joined<T, right>::joined;                                             \
		CXXRTL_ALWAYS_INLINE                                                        \
		concat_expr &operator=(const value<joined<T, right>::bits> &whole) {        \
			this->assign(whole);                                                    \
			return *this;                                                           \
		}                                                                           \
	};
#define FOLDWIRE_COMMA ,
FOLDWIRE_CONCAT(size_t Bits, value<Bits>)
FOLDWIRE_CONCAT(size_t Bits, const value<Bits>)
FOLDWIRE_CONCAT(class V FOLDWIRE_COMMA size_t A FOLDWIRE_COMMA size_t B, slice_expr<V FOLDWIRE_COMMA A FOLDWIRE_COMMA B>)
FOLDWIRE_CONCAT(class V FOLDWIRE_COMMA size_t A FOLDWIRE_COMMA size_t B, const slice_expr<V FOLDWIRE_COMMA A FOLDWIRE_COMMA B>)
#undef FOLDWIRE_COMMA
#undef FOLDWIRE_CONCAT

} // namespace cxxrtl

namespace cxxrtl_yosys {

// Operations whose operands and result fit a chunk or two; wider ones go to the run-time library.
// A chunk above the width of its value is zero, so extension costs nothing.
template<size_t Bits>
CXXRTL_ALWAYS_INLINE
uint64_t number_of(const value<Bits> &a) {
	if constexpr (Bits == 0) // a constant 0 of no width; it has no chunk
		return 0;
	else if constexpr (Bits <= 32)
		return a.data[0];
	else
		return a.data[0] | uint64_t(a.data[1]) << 32;
}

template<size_t Bits>
CXXRTL_ALWAYS_INLINE
value<Bits> value_of(uint64_t number) {
	if constexpr (Bits <= 32)
		return value<Bits>{chunk_t(number) & value<Bits>::msb_mask};
	else
		return value<Bits>{chunk_t(number), chunk_t(number >> 32) & value<Bits>::msb_mask};
}

#define FOLDWIRE_WORD(name, expression)                                                 \
	template<size_t BitsY, size_t BitsA, size_t BitsB>                                  \
	CXXRTL_ALWAYS_INLINE                                                                \
	value<BitsY> fast_##name(const value<BitsA> &left, const value<BitsB> &right) {     \
		if constexpr (BitsY <= 64 && BitsA <= 64 && BitsB <= 64) {                      \
			const auto a = number_of(left), b = number_of(right);                       \
			return value_of<BitsY>(expression);                                         \
		} else {                                                                        \
			return name<BitsY>(left, right);                                            \
		}                                                                               \
	}
FOLDWIRE_WORD(and_uu, a & b)
FOLDWIRE_WORD(or_uu, a | b)
FOLDWIRE_WORD(xor_uu, a ^ b)
FOLDWIRE_WORD(add_uu, a + b)
FOLDWIRE_WORD(sub_uu, a - b)
FOLDWIRE_WORD(eq_uu, a == b)
FOLDWIRE_WORD(ne_uu, a != b)
FOLDWIRE_WORD(lt_uu, a < b)
FOLDWIRE_WORD(le_uu, a <= b)
FOLDWIRE_WORD(gt_uu, a > b)
FOLDWIRE_WORD(ge_uu, a >= b)
#undef FOLDWIRE_WORD

template<size_t BitsY, size_t BitsA>
CXXRTL_ALWAYS_INLINE
value<BitsY> fast_not_u(const value<BitsA> &a) {
	if constexpr (BitsY <= 64 && BitsA <= 64)
		return value_of<BitsY>(~number_of(a));
	else
		return not_u<BitsY>(a);
}

} // namespace cxxrtl_yosys

// The generated code comes after this header, so its calls take the versions above.
#define and_uu fast_and_uu
#define or_uu fast_or_uu
#define xor_uu fast_xor_uu
#define add_uu fast_add_uu
#define sub_uu fast_sub_uu
#define eq_uu fast_eq_uu
#define ne_uu fast_ne_uu
#define lt_uu fast_lt_uu
#define le_uu fast_le_uu
#define gt_uu fast_gt_uu
#define ge_uu fast_ge_uu
#define not_u fast_not_u

#endif
