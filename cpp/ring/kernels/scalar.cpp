// Portable kernels: the reference that the tables of all instruction sets match bit for bit.
#include <algorithm>
#include <bit>
#include <cmath>

#include "ring/automorphism.h"
#include "ring/kernels.h"
#include "ring/kernels/gaussian.h"
#include "ring/kernels/row_butterfly.h"
#include "ring/kernels/tables.h"
#include "ring/kernels/undivided.h"
#include "ring/kernels/uniform.h"
#include "ring/ntt.h"
#include "ring/packing.h"

namespace cipherblas {

namespace {

using Word = std::uint64_t;

Word low(u128 t) { return static_cast<Word>(t) & kWordMask; }
Word high(u128 t) { return static_cast<Word>(t >> kWordBits); }
u128 wide(Word a, Word b) { return static_cast<u128>(a) * b; }

Word subtract_once(Word x, Word q) { return x >= q ? x - q : x; }

// Shoup's product a * w - floor(a * w' / 2^52) * q in [0, 2q), for any a < 2^52 and w < q.
Word shoup_lazy(Word a, Word w, Word quotient, Word q) { return a * w - high(wide(a, quotient)) * q; }

// Barrett: with b = bits, the estimate floor((t >> (b-1)) * mu / 2^52) of t / q for t < q^2 is never above
// and less than 3 below: the shift loses under 2^(b-1) / q < 1, mu under 2^(b+1) / 2^52 < 1, the floor
// under 1.
Word multiply(Word a, Word b, const Modulus& m) {
    const u128 t = wide(a, b);
    const Word estimate = high(wide(static_cast<Word>(t >> (m.bits - 1)), m.mu));
    const Word r = static_cast<Word>(t) - estimate * m.q;
    return subtract_once(subtract_once(r, 2 * m.q), m.q);
}

// t * 2^-52 for t < 2^52 q: the difference of the high parts lies in (-q, q).
Word montgomery_once(u128 t, const Modulus& m) {
    const Word multiple = high(wide(low(t) * m.q_inv & kWordMask, m.q));
    return subtract_once(high(t) + m.q - multiple, m.q);
}

// Harvey's lazy butterflies: values stay below 4q < 2^52 between the layers of the forward transform.
// The layers below the block `node` of `size` words, of the tree of all blocks.
void forward_block(Word* x, std::size_t size, std::size_t node, const NttTable& table) {
    const Word q = table.modulus.q;
    for (std::size_t blocks = 1, stride = size / 2; stride >= 1; blocks *= 2, stride /= 2) {
        for (std::size_t block = 0; block < blocks; ++block) {
            const Word w = table.roots.plain[node * blocks + block];
            const Word quotient = table.roots.quotient[node * blocks + block];
            Word* even = x + 2 * block * stride;
            Word* odd = even + stride;
            for (std::size_t i = 0; i < stride; ++i) {
                const Word u = subtract_once(even[i], 2 * q);
                const Word v = shoup_lazy(odd[i], w, quotient, q);
                even[i] = u + v;
                odd[i] = u + 2 * q - v;
            }
        }
    }
    for (std::size_t i = 0; i < size; ++i) x[i] = subtract_once(subtract_once(x[i], 2 * q), q);
}

void ntt(Word* x, const NttTable& table) { forward_block(x, std::size_t{1} << table.log_n, 1, table); }

// Zeros above the first words leave copies of these in every block.
void ntt_of_short(Word* r, const Word* a, std::size_t count, std::size_t first, std::size_t length,
                  const NttTable& table) {
    const std::size_t blocks = (std::size_t{1} << table.log_n) / count;
    for (std::size_t start = first; start < first + length; start += count, r += count) {
        std::copy_n(a, count, r);
        forward_block(r, count, blocks + start / count, table);
    }
}

// Values stay below 2q between the layers of the inverse transform.
void intt(Word* x, const NttTable& table) {
    const Word q = table.modulus.q;
    const std::size_t n = std::size_t{1} << table.log_n;
    for (std::size_t blocks = n / 2, stride = 1; blocks > 1; blocks /= 2, stride *= 2) {
        for (std::size_t block = 0; block < blocks; ++block) {
            const Word w = table.inverse_roots.plain[blocks + block];
            const Word quotient = table.inverse_roots.quotient[blocks + block];
            Word* even = x + 2 * block * stride;
            Word* odd = even + stride;
            for (std::size_t i = 0; i < stride; ++i) {
                const Word sum = even[i] + odd[i];
                const Word difference = even[i] + 2 * q - odd[i];
                even[i] = subtract_once(sum, 2 * q);
                odd[i] = shoup_lazy(difference, w, quotient, q);
            }
        }
    }
    for (std::size_t i = 0; i < n / 2; ++i) {
        const Word sum = x[i] + x[i + n / 2];
        const Word difference = x[i] + 2 * q - x[i + n / 2];
        x[i] = subtract_once(shoup_lazy(sum, table.n_inverse, table.n_inverse_quotient, q), q);
        x[i + n / 2] = subtract_once(shoup_lazy(difference, table.last_root, table.last_root_quotient, q), q);
    }
}

void add(Word* r, const Word* a, const Word* b, std::size_t n, const Modulus& m) {
    for (std::size_t i = 0; i < n; ++i) r[i] = add_mod(a[i], b[i], m);
}

void sub(Word* r, const Word* a, const Word* b, std::size_t n, const Modulus& m) {
    for (std::size_t i = 0; i < n; ++i) r[i] = sub_mod(a[i], b[i], m);
}

void neg(Word* r, const Word* a, std::size_t n, const Modulus& m) {
    for (std::size_t i = 0; i < n; ++i) r[i] = a[i] == 0 ? 0 : m.q - a[i];
}

void mul(Word* r, const Word* a, const Word* b, std::size_t n, const Modulus& m) {
    for (std::size_t i = 0; i < n; ++i) r[i] = multiply(a[i], b[i], m);
}

void mul_mont(Word* r, const Word* a, const Word* b, std::size_t n, const Modulus& m) {
    for (std::size_t i = 0; i < n; ++i) r[i] = montgomery_once(wide(a[i], b[i]), m);
}

void mul_scalar(Word* r, const Word* a, Word c, std::size_t n, const Modulus& m) {
    const Word factor = to_montgomery(c, m);
    for (std::size_t i = 0; i < n; ++i) r[i] = montgomery_once(wide(a[i], factor), m);
}

void add_mul_scalar(Word* r, const Word* a, const Word* b, Word c, std::size_t n, const Modulus& m) {
    const Word factor = to_montgomery(c, m);
    for (std::size_t i = 0; i < n; ++i) r[i] = montgomery_once(wide(add_mod(a[i], b[i], m), factor), m);
}

void from_signed(Word* r, const std::int64_t* a, std::size_t n, const Modulus& m) {
    const auto q = static_cast<std::int64_t>(m.q);
    for (std::size_t i = 0; i < n; ++i) {
        const std::int64_t remainder = a[i] % q;
        r[i] = static_cast<Word>(remainder < 0 ? remainder + q : remainder);
    }
}

void permute(Word* r, const Word* a, const Permutation& p, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) r[i] = a[p.index[i]];
}

void base_overflow(Word* v, const Word* const* y, const double* reciprocal, int count, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        double sum = 0.0;
        for (int j = 0; j < count; ++j) {
            const double product = static_cast<double>(y[j][i]) * reciprocal[j];
            sum = sum + product;
        }
        v[i] = static_cast<Word>(std::floor(sum + 0.5));
    }
}

void base_convert(Word* r, const Word* const* y, const Word* factor, int count, const Word* v,
                  Word overflow_factor, std::size_t n, const Modulus& m) {
    for (std::size_t i = 0; i < n; ++i) {
        u128 sum = v == nullptr ? 0 : wide(v[i], overflow_factor);
        for (int j = 0; j < count; ++j) sum += wide(y[j][i], factor[j]);
        r[i] = montgomery_reduce(sum, m);
    }
}

// Sums of products of residues are below 2^100 each. They are folded after this many, which keeps them below
// 2^113, as montgomery_reduce demands.
constexpr std::size_t kTermsPerFold = std::size_t{1} << 12;

// sum mod q, still as a sum.
void fold(u128& sum, const Modulus& m) { sum = sum % m.q; }

// t mod q by two Montgomery steps.
Word reduce(u128 t, const Modulus& m) {
    return montgomery_once(wide(montgomery_reduce(t, m), m.r2_mod_q), m);
}

void multiply_sum(Word* c0, Word* c1, Word* c2, const Word* const* a0, const Word* const* a1,
                  const Word* const* b0, const Word* const* b1, std::size_t count, bool accumulate, bool,
                  std::size_t n, const Modulus& m) {
    for (std::size_t i = 0; i < n; ++i) {
        u128 s0 = accumulate ? c0[i] : 0;
        u128 s1 = accumulate ? c1[i] : 0;
        u128 s2 = accumulate ? c2[i] : 0;
        for (std::size_t t = 0; t < count; ++t) {
            if (t % kTermsPerFold == kTermsPerFold - 1) {
                fold(s0, m);
                fold(s1, m);
                fold(s2, m);
            }
            s0 += wide(a0[t][i], b0[t][i]);
            s1 += wide(a0[t][i], b1[t][i]) + wide(a1[t][i], b0[t][i]);
            s2 += wide(a1[t][i], b1[t][i]);
        }
        c0[i] = reduce(s0, m);
        c1[i] = reduce(s1, m);
        c2[i] = reduce(s2, m);
    }
}

template <typename Cell>
void multiply_plains(Word* c0, Word* c1, const void* const* p, std::size_t repeats, const Word* const* b0,
                     const Word* const* b1, std::size_t count, bool accumulate, std::size_t n,
                     const Modulus& m) {
    const int shift = std::countr_zero(repeats);
    for (std::size_t i = 0; i < n; ++i) {
        u128 s0 = accumulate ? static_cast<u128>(c0[i]) << kWordBits : 0;
        u128 s1 = accumulate ? static_cast<u128>(c1[i]) << kWordBits : 0;
        for (std::size_t t = 0; t < count; ++t) {
            if (t % kTermsPerFold == kTermsPerFold - 1) {
                fold(s0, m);
                fold(s1, m);
            }
            const Word factor = static_cast<const Cell*>(p[t])[i >> shift];
            s0 += wide(factor, b0[t][i]);
            s1 += wide(factor, b1[t][i]);
        }
        c0[i] = montgomery_reduce(s0, m);
        c1[i] = montgomery_reduce(s1, m);
    }
}

void multiply_plain_sum(Word* c0, Word* c1, const void* const* p, std::size_t halves, std::size_t repeats,
                        const Word* const* b0, const Word* const* b1, std::size_t count, bool accumulate,
                        std::size_t n, const Modulus& m) {
    const auto run = halves == 1 ? multiply_plains<std::uint32_t> : multiply_plains<Word>;
    run(c0, c1, p, repeats, b0, b1, count, accumulate, n, m);
}

// 2^52 * (sum_j digit_j * key_j * 2^-52 + add * add_factor * 2^-52) at one position, source being its place among the
// unrotated words.
u128 term_sum(const RotationTerm& term, const Word* const* key, const Word* add_limb, std::size_t position,
              std::size_t source) {
    u128 sum = add_limb == nullptr ? 0 : wide(add_limb[source], term.add_factor);
    for (int j = 0; j < term.digit_count; ++j) {
        const Word word = packed_word(key[j], position, term.key_bits);
        sum += wide(term.digits[j][source], word);
    }
    return sum;
}

void accumulate_terms(Word* out0, Word* out1, const RotationTerm* terms, std::size_t count, bool accumulate,
                      std::size_t begin, std::size_t end, const Modulus& m) {
    constexpr std::size_t kChunk = 256;
    u128 sum0[kChunk];
    u128 sum1[kChunk];
    for (std::size_t start = begin; start < end; start += kChunk) {
        const std::size_t size = std::min(kChunk, end - start);
        for (std::size_t i = 0; i < size; ++i) {
            sum0[i] = accumulate ? static_cast<u128>(out0[start - begin + i]) << kWordBits : 0;
            sum1[i] = accumulate ? static_cast<u128>(out1[start - begin + i]) << kWordBits : 0;
        }
        for (std::size_t t = 0; t < count; ++t) {
            const RotationTerm& term = terms[t];
            for (std::size_t i = 0; i < size; ++i) {
                const std::size_t position = start + i;
                const std::size_t source =
                    (term.permutation == nullptr ? position : term.permutation->index[position]) - term.start;
                u128 x0 = term_sum(term, term.key0, term.add0, position, source);
                u128 x1 = term_sum(term, term.key1, term.add1, position, source);
                if (term.plaintext != nullptr) {
                    x0 = wide(montgomery_reduce(x0, m), term.plaintext[position]);
                    x1 = wide(montgomery_reduce(x1, m), term.plaintext[position]);
                } else {
                    fold(x0, m);
                    fold(x1, m);
                }
                sum0[i] += x0;
                sum1[i] += x1;
                if (t % kTermsPerFold == kTermsPerFold - 1) {
                    fold(sum0[i], m);
                    fold(sum1[i], m);
                }
            }
        }
        for (std::size_t i = 0; i < size; ++i) {
            out0[start - begin + i] = montgomery_reduce(sum0[i], m);
            out1[start - begin + i] = montgomery_reduce(sum1[i], m);
        }
    }
}

void gaussian(std::int64_t* r, const Word* words, std::size_t n) {
    constexpr std::size_t kBlock = 64;
    for (std::size_t offset = 0; offset < n; offset += kBlock) {
        const std::size_t length = n - offset < kBlock ? n - offset : kBlock;
        std::int64_t magnitude[kBlock] = {};
        for (const Word bound : noise::kCumulative) {
            for (std::size_t i = 0; i < length; ++i) {
                // The difference of two numbers below 2^63 is negative exactly when the word is below the bound.
                const Word below = ((words[offset + i] >> 1) - bound) >> 63;
                magnitude[i] += static_cast<std::int64_t>(1 - below);
            }
        }
        for (std::size_t i = 0; i < length; ++i) {
            const std::int64_t sign = -static_cast<std::int64_t>(words[offset + i] & 1);
            r[offset + i] = (magnitude[i] ^ sign) - sign;
        }
    }
}

constexpr Kernels kTable = {
    .name = "scalar",
    .ntt = ntt,
    .intt = intt,
    .ntt_of_signed = undivided::ntt_of_signed<from_signed, mul_scalar, ntt>,
    .intt_scaled = undivided::intt_scaled<mul, mul_scalar, intt>,
    .add = add,
    .sub = sub,
    .neg = neg,
    .mul = mul,
    .mul_mont = mul_mont,
    .mul_scalar = mul_scalar,
    .add_mul_scalar = add_mul_scalar,
    .from_signed = from_signed,
    .gaussian = gaussian,
    .uniform = residues::uniform,
    .permute = permute,
    .base_overflow = base_overflow,
    .base_convert = base_convert,
    .scaled_sum = base_convert,
    .ntt_parts = undivided::ntt_parts,
    .prepare_words = nullptr,
    .base_convert_ntt = undivided::base_convert_ntt<base_convert>,
    .order_stores = undivided::order_stores,
    .ntt_part = undivided::ntt_part<ntt>,
    .ntt_part_add_mul_scalar = undivided::ntt_part_add_mul_scalar<ntt, add_mul_scalar>,
    .multiply_sum = multiply_sum,
    .multiply_plain_sum = multiply_plain_sum,
    .multiply_short_sum = undivided::multiply_short_sum<ntt_of_short, multiply_plain_sum>,
    .accumulate_terms = accumulate_terms,
    .row_butterfly = rows::row_butterfly<rows::Word>,
};

}  // namespace

const Kernels* scalar_table() { return &kTable; }

}  // namespace cipherblas
