// Base conversion, alone and together with the first layers of the NTT.
#include "ring/kernels/avx512ifma_convert.h"

#include <algorithm>

#include "ring/kernels/avx512ifma_butterflies.h"
#include "ring/kernels/undivided.h"

namespace cipherblas::avx512ifma {

namespace {

template <int VECTORS>
CIPHERBLAS_INLINE void convert(Word* r, const Word* const* y, const Word* factor, int count, const Word* v,
                               Word overflow_factor, std::size_t i, const Reduction& reduce, const Lanes& m) {
    Sum sums[VECTORS];
    for (int j = 0; j < count; ++j) {
        const __m512i f = broadcast(factor[j]);
#pragma GCC unroll 8
        for (int k = 0; k < VECTORS; ++k) sums[k].add_product(load(y[j] + i + 8 * k), f);
    }
    if (v != nullptr) {
        const __m512i f = broadcast(overflow_factor);
#pragma GCC unroll 8
        for (int k = 0; k < VECTORS; ++k) sums[k].add_product(load(v + i + 8 * k), f);
    }
#pragma GCC unroll 8
    for (int k = 0; k < VECTORS; ++k) store(r + i + 8 * k, reduce(sums[k], m));
}

// ---- with the first pass of the NTT

// Words of a piece of eight or nine sources from one of eight parts to the next, as BaseConversion lays them out: a constant saves
// address arithmetic, which takes the ports of the products.
constexpr std::size_t kUsualStride = 32;

// What the vectors of some columns of all parts start from: the conversion, spread for the layers to come. STRIDE: that of
// the piece, or 0 for any.
template <bool FEW, std::size_t STRIDE>
struct ManySources {
    const ConversionPiece& piece;
    const ConversionFactors& f;
    Reduction reduce;
    __m512i offset;

    CIPHERBLAS_INLINE ManySources(const ConversionPiece& words, const ConversionFactors& factors,
                                  const Modulus& m, int span)
        : piece(words),
          f(factors),
          reduce(m, static_cast<std::uint64_t>(factors.count) + 1),
          offset(broadcast((static_cast<Word>(converted_room(span)) + (FEW ? 1 : 0)) * m.q)) {}

    template <int GROUPS, int PARTS>
    CIPHERBLAS_INLINE void operator()(__m512i (*x)[PARTS], std::size_t column, const Lanes& m) const {
        constexpr int kSide = std::min(8 / PARTS, GROUPS);  // columns whose sums are in registers at one time
#pragma GCC unroll 8
        for (int first = 0; first < GROUPS; first += kSide) {
            Sum sums[kSide][PARTS];
            // Where the sum's reduction is all that follows, it starts from what would be added.
            if (FEW) for_each_vector<kSide, PARTS>([&](int g, int part) { sums[g][part].high = offset; });
            for (int j = 0; j <= f.count; ++j) {
                const Word* const from = piece.y[j] + column + 8 * first;
                const __m512i factor = broadcast(f.factor[j]);
                for_each_vector<kSide, PARTS>([&](int g, int part) {
                    const std::size_t stride = STRIDE > 0 ? STRIDE : piece.stride;
                    sums[g][part].add_product(load(from + part * stride + 8 * g), factor);
                });
            }
            for_each_vector<kSide, PARTS>([&](int g, int part) {
                const Sum& sum = sums[g][part];
                x[first + g][part] = FEW ? sum.montgomery(m) : add(reduce(sum, m), offset);
            });
        }
    }
};

// A single source prime d: the centred y - floor(d / 2), brought to [0, 4q) by a multiple of q, and spread as well. Up to
// d = 4q it is the same multiple for all; up to 8q (WIDE) those that are not negative need none.
constexpr Word kNarrow = 4;

template <bool WIDE>
struct OneSource {
    const ConversionPiece& piece;
    __m512i half, offset;
    __m512i multiple;  // the smallest that leaves nothing negative

    CIPHERBLAS_INLINE OneSource(const ConversionPiece& words, Word source, Word q, int span)
        : piece(words), half(broadcast(source / 2)), multiple(broadcast((source / 2 + q - 1) / q * q)) {
        const __m512i spread = sub(broadcast(static_cast<Word>(converted_room(span)) * q), half);
        offset = WIDE ? spread : add(spread, multiple);
    }

    template <int GROUPS, int PARTS>
    CIPHERBLAS_INLINE void operator()(__m512i (*x)[PARTS], std::size_t column, const Lanes&) const {
        for_each_vector<GROUPS, PARTS>([&](int g, int part) {
            const __m512i y = load(piece.y[0] + part * piece.stride + column + 8 * g);
            const __m512i centred = add(y, offset);
            x[g][part] =
                WIDE ? _mm512_mask_add_epi64(centred, _mm512_cmplt_epu64_mask(y, half), centred, multiple)
                     : centred;
        });
    }
};

template <bool BYPASS, int GROUPS, typename Stride, int LOG, typename Source, int SPAN>
CIPHERBLAS_INLINE void convert_columns(Word* r, std::size_t column, const Stride part_words,
                                       const Source& source, const PassTwiddles<LOG, 1>& twiddles,
                                       const Field<SPAN>& field) {
    constexpr int kParts = 1 << LOG;
    __m512i x[GROUPS][kParts];
    source.template operator()<GROUPS, kParts>(x, column, field);
    forward_layers<GROUPS, Inputs::kSpread>(x, twiddles, field);
    for_each_vector<GROUPS, kParts>([&](int g, int part) {
        Word* const to = r + part * part_words + column + 8 * g;
        BYPASS ? store_past_caches(to, x[g][part]) : store(to, x[g][part]);
    });
}

// One half of the parts: of the first layer either the sums or the differences, and the layers below them.
template <bool SECOND, int LOG, typename Stride, typename Source, int SPAN>
CIPHERBLAS_INLINE void convert_half_columns(Word* r, std::size_t column, const Stride part_words,
                                            const Source& source, const PassTwiddles<1, 1>& first,
                                            const PassTwiddles<LOG - 1, 1>& below, const Field<SPAN>& field) {
    constexpr int kGroups = pass_groups(LOG), kHalf = 1 << (LOG - 1);
    __m512i x[kGroups][2 * kHalf], half[kGroups][kHalf];
    source.template operator()<kGroups, 2 * kHalf>(x, column, field);
    for_each_vector<kGroups, kHalf>([&](int g, int i) {
        forward_butterfly<kBetweenLayers<SPAN>>(x[g][i], x[g][i + kHalf], first.w[0], first.quotient[0],
                                                field);
        half[g][i] = x[g][SECOND ? i + kHalf : i];
    });
    forward_layers<kGroups, Inputs::kSpread>(half, below, field);
    for_each_vector<kGroups, kHalf>(
        [&](int g, int part) { store(r + part * part_words + column + 8 * g, half[g][part]); });
}

template <bool SECOND, int LOG, typename Source, int SPAN>
void convert_half_pass(Word* r, const ConversionPiece& piece, const Source& source, const Field<SPAN> field,
                       const NttTable& table) {
    const Twiddles twiddles(table.roots);
    const PassTwiddles<1, 1> first(1, twiddles);
    const PassTwiddles<LOG - 1, 1> below(SECOND ? 3 : 2, twiddles);
    with_first_stride<LOG>(table.log_n, [&](const auto part_words) {
        for (std::size_t column = 0; column < piece.length; column += 8 * pass_groups(LOG)) {
            convert_half_columns<SECOND, LOG>(r + piece.offset, column, part_words, source, first, below,
                                              field);
        }
    });
}

template <bool BYPASS, int LOG, typename Source, int SPAN>
void convert_pass(Word* r, const ConversionPiece& piece, const Source& source, const Field<SPAN> field,
                  const NttTable& table) {
    constexpr int kGroups = pass_groups(LOG);
    const PassTwiddles<LOG, 1> twiddles(1, Twiddles(table.roots));
    with_first_stride<LOG>(table.log_n, [&](const auto part_words) {
        std::size_t column = 0;
        for (; column + 8 * kGroups <= piece.length; column += 8 * kGroups) {
            convert_columns<BYPASS, kGroups>(r + piece.offset, column, part_words, source, twiddles, field);
        }
        for (; column < piece.length; column += 8) {
            convert_columns<BYPASS, 1>(r + piece.offset, column, part_words, source, twiddles, field);
        }
    });
}

template <bool BYPASS, int LOG, typename Source, int SPAN>
void convert_one(Word* r, const ConversionPiece& piece, const Source& source, const Field<SPAN>& field,
                 const NttTable& table) {
    switch (piece.parts) {
        case ConversionPiece::Parts::kFirstHalf:
            return convert_half_pass<false, LOG>(r, piece, source, field, table);
        case ConversionPiece::Parts::kSecondHalf:
            return convert_half_pass<true, LOG>(r, piece, source, field, table);
        default:
            convert_pass<BYPASS, LOG>(r, piece, source, field, table);
    }
}

template <bool BYPASS, int LOG>
void convert_pass(Word* r, const ConversionPiece& piece, const ConversionFactors& f, const NttTable& table) {
    const Modulus& m = table.modulus;
    with_field(m, [&]<int SPAN>(const Field<SPAN>& field) {
        if (f.count == 1 && f.source <= kNarrow * m.q) {
            convert_one<BYPASS, LOG>(r, piece, OneSource<false>(piece, f.source, m.q, SPAN), field, table);
        } else if (f.count == 1 && f.source <= ConversionPiece::kNear * m.q) {
            convert_one<BYPASS, LOG>(r, piece, OneSource<true>(piece, f.source, m.q, SPAN), field, table);
        } else if (piece.stride == kUsualStride &&
                   static_cast<std::uint64_t>(f.count) + 1 <= Reduction::kFewQuarters) {
            convert_pass<BYPASS, LOG>(r, piece, ManySources<true, kUsualStride>(piece, f, m, SPAN), field,
                                      table);
        } else if (static_cast<std::uint64_t>(f.count) + 1 <= Reduction::kFewQuarters) {
            convert_pass<BYPASS, LOG>(r, piece, ManySources<true, 0>(piece, f, m, SPAN), field, table);
        } else {
            convert_pass<BYPASS, LOG>(r, piece, ManySources<false, 0>(piece, f, m, SPAN), field, table);
        }
    });
}

}  // namespace

// A product is below 2^50 q, so that the sum is below (count + 1) * 2^50 q; its words are below 65 * 2^52.
void base_convert(Word* r, const Word* const* y, const Word* factor, int count, const Word* v,
                  Word overflow_factor, std::size_t n, const Modulus& modulus) {
    const Lanes m(modulus);
    const Reduction reduce(modulus, static_cast<std::uint64_t>(count) + 1);
    std::size_t i = 0;
    for (; i + 64 <= n; i += 64) convert<8>(r, y, factor, count, v, overflow_factor, i, reduce, m);
    for (; i < n; i += 8) convert<1>(r, y, factor, count, v, overflow_factor, i, reduce, m);
}

// The conversion goes with a first pass that is not the only one, and that leaves registers for it.
int ntt_parts(int log_n) {
    const int log_radix = log_n > kTailLog + kLastPassLog ? next_pass(log_n) : 0;
    return log_radix == 2 || log_radix == 3 ? 1 << log_radix : 1;
}

void base_convert_ntt(Word* r, const ConversionPiece& piece, const ConversionFactors& f, bool bypass,
                      const NttTable& table) {
    switch (ntt_parts(table.log_n)) {
        case 4:
            return bypass ? convert_pass<true, 2>(r, piece, f, table)
                          : convert_pass<false, 2>(r, piece, f, table);
        case 8:
            return bypass ? convert_pass<true, 3>(r, piece, f, table)
                          : convert_pass<false, 3>(r, piece, f, table);
        default:
            return undivided::base_convert_ntt<base_convert>(r, piece, f, bypass, table);
    }
}

void order_stores() { _mm_sfence(); }

}  // namespace cipherblas::avx512ifma
