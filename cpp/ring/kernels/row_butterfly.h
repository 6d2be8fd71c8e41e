// Butterflies of rows whose twiddle factors are monomials, for every instruction set: additions of whole
// vectors.
#pragma once
#include <cstddef>
#include <cstdint>

namespace cipherblas {
namespace {  // internal linkage: every instruction set has its own copy
namespace rows {

using Word = std::uint64_t;

#define CIPHERBLAS_ROWS_INLINE [[gnu::always_inline]] inline

typedef Word Words4 __attribute__((vector_size(32)));
typedef Word Words8 __attribute__((vector_size(64)));

// X^s x of a row x takes its column c from column (c - s) mod 2n, with a minus sign from n on. Columns j and
// j + n/2 go together, since X^(n/2) exchanges them. Over the columns j of a segment all operands are
// contiguous.
template <int RADIX>
struct Segment {
    std::size_t begin, end;       // of j
    std::size_t index[RADIX][2];  // of the column that belongs to j = begin and begin + n/2
    Word negative[RADIX][2];      // all ones: with a minus sign
};

// Cuts [0, n/2) where some operand wraps around; returns how many segments there are.
template <int RADIX>
CIPHERBLAS_ROWS_INLINE int cut(const std::size_t* shift, std::size_t n, Segment<RADIX>* segments) {
    const std::size_t half = n / 2;
    std::size_t cuts[RADIX + 1] = {0};
    int count = 1;
    for (int r = 1; r < RADIX; ++r) {  // sorted, each once
        const std::size_t place = shift[r - 1] & (half - 1);
        int i = count;
        while (i > 0 && cuts[i - 1] > place) --i;
        if (i > 0 && cuts[i - 1] == place) continue;
        for (int k = count; k > i; --k) cuts[k] = cuts[k - 1];
        cuts[i] = place;
        ++count;
    }
    for (int k = 0; k < count; ++k) {
        Segment<RADIX>& segment = segments[k];
        segment.begin = cuts[k];
        segment.end = k + 1 < count ? cuts[k + 1] : half;
        for (int r = 0; r < RADIX; ++r) {
            for (std::size_t c = 0; c < 2; ++c) {
                const std::size_t column = segment.begin + c * half + 2 * n - (r == 0 ? 0 : shift[r - 1]);
                segment.index[r][c] = column & (n - 1);
                segment.negative[r][c] = (column & n) != 0 ? ~Word{0} : 0;
            }
        }
    }
    return count;
}

// Where the rows of one segment are read and written, from j = begin on. `straight` are the rows without a
// shift.
template <int RADIX>
struct Places {
    const Word* in[RADIX][2];
    Word* out[RADIX][2];

    CIPHERBLAS_ROWS_INLINE Places(Word* const* to, const Word* const* from, const Segment<RADIX>& segment,
                                  bool inverse, std::size_t half) {
        for (int r = 0; r < RADIX; ++r) {
            for (std::size_t c = 0; c < 2; ++c) {
                const std::size_t straight = segment.begin + c * half;
                in[r][c] = from[r] + (inverse ? straight : segment.index[r][c]);
                out[r][c] = to[r] + (inverse ? segment.index[r][c] : straight);
            }
        }
    }
};

// The butterfly at the columns begin + i and begin + i + n/2 and as many more as V has lanes.
template <int RADIX, bool INVERSE, typename V>
CIPHERBLAS_ROWS_INLINE void step(const Places<RADIX>& places, const Segment<RADIX>& segment, std::size_t i) {
    V x[RADIX][2];
#pragma GCC unroll 4
    for (int r = 0; r < RADIX; ++r) {
#pragma GCC unroll 2
        for (int c = 0; c < 2; ++c) {
            __builtin_memcpy(&x[r][c], places.in[r][c] + i, sizeof(V));
            if (!INVERSE && r > 0) x[r][c] = (x[r][c] ^ segment.negative[r][c]) - segment.negative[r][c];
        }
    }
    V y[RADIX][2];
    if constexpr (RADIX == 2) {
#pragma GCC unroll 2
        for (int c = 0; c < 2; ++c) {
            y[0][c] = x[0][c] + x[1][c];
            y[1][c] = x[0][c] - x[1][c];
        }
    } else {
        V sum[2], difference[2], side[2], turned[2];
        constexpr int kSecond = INVERSE ? 1 : 2;  // the partner of row 0 in the first layer
        constexpr int kThird = 3 - kSecond;
#pragma GCC unroll 2
        for (int c = 0; c < 2; ++c) {
            sum[c] = x[0][c] + x[kSecond][c];
            difference[c] = x[0][c] - x[kSecond][c];
            side[c] = x[kThird][c] + x[3][c];
            turned[1 - c] = x[kThird][c] - x[3][c];
        }
        // Times X^(n/2): columns (j, j + n/2) become (-(j + n/2), j); times its inverse the other sign.
#pragma GCC unroll 2
        for (int c = 0; c < 2; ++c) {
            const bool minus = (c == 0) != INVERSE;
            y[0][c] = sum[c] + side[c];
            y[kThird][c] = sum[c] - side[c];
            y[kSecond][c] = minus ? difference[c] - turned[c] : difference[c] + turned[c];
            y[3][c] = minus ? difference[c] + turned[c] : difference[c] - turned[c];
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < RADIX; ++r) {
#pragma GCC unroll 2
        for (int c = 0; c < 2; ++c) {
            if (INVERSE && r > 0) y[r][c] = (y[r][c] ^ segment.negative[r][c]) - segment.negative[r][c];
            __builtin_memcpy(places.out[r][c] + i, &y[r][c], sizeof(V));
        }
    }
}

// The ends of a segment are done by vectors that overlap their neighbours: inputs and outputs are different
// rows.
template <int RADIX, bool INVERSE, typename V>
void butterfly(Word* const* out, const Word* const* in, const std::size_t* shift, std::size_t n) {
    constexpr std::size_t kLanes = sizeof(V) / sizeof(Word);
    Segment<RADIX> segments[RADIX];
    const int count = cut<RADIX>(shift, n, segments);
    for (int k = 0; k < count; ++k) {
        const Segment<RADIX>& segment = segments[k];
        const Places<RADIX> places(out, in, segment, INVERSE, n / 2);
        const std::size_t length = segment.end - segment.begin;
        if (length < kLanes) {
            for (std::size_t i = 0; i < length; ++i) step<RADIX, INVERSE, Word>(places, segment, i);
            continue;
        }
        step<RADIX, INVERSE, V>(places, segment, 0);
        std::size_t i = kLanes - segment.begin % kLanes;  // the rows without a shift are aligned from here on
        for (; i + kLanes <= length; i += kLanes) step<RADIX, INVERSE, V>(places, segment, i);
        if (i < length) step<RADIX, INVERSE, V>(places, segment, length - kLanes);
    }
}

template <typename V>
void row_butterfly(Word* const* out, const Word* const* in, const std::size_t* shift, int radix, bool inverse,
                   std::size_t n) {
    if (radix == 2) {
        return inverse ? butterfly<2, true, V>(out, in, shift, n) : butterfly<2, false, V>(out, in, shift, n);
    }
    return inverse ? butterfly<4, true, V>(out, in, shift, n) : butterfly<4, false, V>(out, in, shift, n);
}

#undef CIPHERBLAS_ROWS_INLINE

}  // namespace rows
}  // namespace
}  // namespace cipherblas
