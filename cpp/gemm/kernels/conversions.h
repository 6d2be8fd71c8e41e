// Between integers and doubles, and modulo q in doubles: simple loops, vectorised by the compiler for the instruction
// set of the file that includes this one. Everything here has internal linkage (see ring/kernels/avx512ifma_math.h).
#pragma once
#include <cstddef>
#include <cstdint>

#include "gemm/kernels.h"

namespace cipherblas::gemm {
namespace {

// Adding 1.5 * 2^52 leaves an integer below 2^51 in absolute value in the low bits of the word, and rounds what is not
// an integer to the nearest one, ties to even.
constexpr double kShift = 0x1.8p52;
constexpr std::uint64_t kShiftBits = 0x4338000000000000;

[[gnu::always_inline]] inline double as_double(std::int64_t x) {
    return __builtin_bit_cast(double, static_cast<std::uint64_t>(x) + kShiftBits) - kShift;
}
[[gnu::always_inline]] inline std::int64_t as_integer(double x) {
    return static_cast<std::int64_t>(__builtin_bit_cast(std::uint64_t, x + kShift) - kShiftBits);
}
[[gnu::always_inline]] inline double rounded(double x) { return (x + kShift) - kShift; }

// The centred representative, |.| <= q / 2.
[[gnu::always_inline]] inline double centred(std::uint64_t x, std::uint64_t half, std::uint64_t q) {
    return as_double(static_cast<std::int64_t>(x - (x > half ? q : 0)));
}

template <typename T>
void convert_signed(double* r, const T* a, std::ptrdiff_t stride, std::size_t n) {
    if (stride == 1) {
        for (std::size_t i = 0; i < n; ++i) r[i] = as_double(a[i]);
    } else {
        for (std::size_t i = 0; i < n; ++i) r[i] = as_double(a[static_cast<std::ptrdiff_t>(i) * stride]);
    }
}

void convert_residues(double* r, const std::uint64_t* a, std::ptrdiff_t stride, std::size_t n,
                      std::uint64_t q) {
    const std::uint64_t half = q / 2;
    if (stride == 1) {
        for (std::size_t i = 0; i < n; ++i) r[i] = centred(a[i], half, q);
    } else {
        for (std::size_t i = 0; i < n; ++i)
            r[i] = centred(a[static_cast<std::ptrdiff_t>(i) * stride], half, q);
    }
}

void to_double(double* r, const void* a, Item item, std::ptrdiff_t stride, std::size_t n, const Modulus& m) {
    switch (item) {
        case Item::kResidue:
            return convert_residues(r, static_cast<const std::uint64_t*>(a), stride, n, m.q);
        case Item::kInt8:
            return convert_signed(r, static_cast<const std::int8_t*>(a), stride, n);
        case Item::kInt16:
            return convert_signed(r, static_cast<const std::int16_t*>(a), stride, n);
        case Item::kInt32:
            return convert_signed(r, static_cast<const std::int32_t*>(a), stride, n);
        case Item::kInt64:
            return convert_signed(r, static_cast<const std::int64_t*>(a), stride, n);
        case Item::kDouble:
            for (std::size_t i = 0; i < n; ++i)
                r[i] = static_cast<const double*>(a)[static_cast<std::ptrdiff_t>(i) * stride];
    }
}

void split(double* x, double* high, int width, std::size_t n) {
    const double up = static_cast<double>(std::int64_t{1} << width);
    const double down = 1.0 / up;
    for (std::size_t i = 0; i < n; ++i) {
        const double h = rounded(x[i] * down);
        high[i] = h;
        x[i] -= h * up;
    }
}

#if defined(__FP_FAST_FMA)

// x - q * round(x / q) for an integer |x| < 2^50 q: the quotient is off by at most 1/2 + 2^-2, so the difference is an
// integer below 2^50, and the fused multiply-add, which rounds once, gives it exactly.
[[gnu::always_inline]] inline double remainder(double x, double q, double reciprocal) {
    return __builtin_fma(-rounded(x * reciprocal), q, x);
}

// weight * x mod q for |x|, |weight| < 2^50: product and its rounding error, each exact; the error is below 2^47.
[[gnu::always_inline]] inline double weighted(double x, double weight, double q, double reciprocal) {
    const double product = x * weight;
    const double error = __builtin_fma(x, weight, -product);
    return remainder(product, q, reciprocal) + error;
}

template <bool ACCUMULATE, bool WEIGHTED>
void reduce_rows(std::uint64_t* c, const double* r, double weight, std::size_t n, double q,
                 double reciprocal) {
    for (std::size_t i = 0; i < n; ++i) {
        double x = remainder(r[i], q, reciprocal);
        if (WEIGHTED) x = weighted(x, weight, q, reciprocal);
        if (ACCUMULATE) x += as_double(static_cast<std::int64_t>(c[i]));
        // Now -q < x < 2q.
        x = x < 0 ? x + q : x;
        x = x >= q ? x - q : x;
        c[i] = static_cast<std::uint64_t>(as_integer(x));
    }
}

void reduce(std::uint64_t* c, const double* r, std::int64_t weight, bool accumulate, std::size_t n,
            const Modulus& m) {
    const double q = static_cast<double>(m.q);
    const double w = static_cast<double>(weight);
    if (accumulate) {
        return weight == 1 ? reduce_rows<true, false>(c, r, w, n, q, m.q_reciprocal)
                           : reduce_rows<true, true>(c, r, w, n, q, m.q_reciprocal);
    }
    return weight == 1 ? reduce_rows<false, false>(c, r, w, n, q, m.q_reciprocal)
                       : reduce_rows<false, true>(c, r, w, n, q, m.q_reciprocal);
}

#else

// Without a fused multiply-add: in integers.
void reduce(std::uint64_t* c, const double* r, std::int64_t weight, bool accumulate, std::size_t n,
            const Modulus& m) {
    const std::int64_t q = static_cast<std::int64_t>(m.q);
    for (std::size_t i = 0; i < n; ++i) {
        std::int64_t x = __builtin_fabs(r[i]) < 0x1p63
                             ? static_cast<std::int64_t>(r[i]) % q
                             : static_cast<std::int64_t>(static_cast<__int128>(r[i]) % q);
        if (weight != 1) x = static_cast<std::int64_t>(static_cast<__int128>(x) * weight % q);
        if (accumulate) x = static_cast<std::int64_t>(static_cast<std::uint64_t>(x) + c[i]);
        x += x < 0 ? q : 0;
        x -= x >= q ? q : 0;
        c[i] = static_cast<std::uint64_t>(x);
    }
}

#endif

}  // namespace
}  // namespace cipherblas::gemm
