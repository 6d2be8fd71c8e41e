// The kernels that sum products over many limbs, against sums that are reduced after every product.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "ring/automorphism.h"
#include "ring/packing.h"
#include "ring_support.h"

namespace cipherblas {
namespace {

using testing::Factors;
using testing::Fill;
using testing::from_montgomery;
using testing::kFills;
using testing::Limb;
using testing::make_limb;
using testing::pointers;
using testing::scalar;
using testing::test_moduli;

std::vector<Limb> make_limbs(std::size_t count, std::size_t n, const Modulus& m, std::mt19937_64& random,
                             Fill fill) {
    std::vector<Limb> limbs;
    for (std::size_t i = 0; i < count; ++i) limbs.push_back(make_limb(n, m.q, random, fill));
    return limbs;
}

// sum_t a_t b_t + start.
Limb sum_products(const std::vector<Limb>& a, const std::vector<Limb>& b, Limb start, const Modulus& m) {
    for (std::size_t t = 0; t < a.size(); ++t) {
        for (std::size_t i = 0; i < start.size(); ++i) {
            start[i] = add_mod(start[i], mul_mod(a[t][i], b[t][i], m), m);
        }
    }
    return start;
}

struct Case {
    std::size_t count, n;
};
// Counts around the group of four and the longest lazy sum; lengths around the chunk.
constexpr Case kCases[] = {{1, 8},  {2, 40},   {3, 1024},  {4, 512},  {5, 520},  {8, 1536},
                           {9, 64}, {64, 128}, {1000, 16}, {1024, 8}, {1025, 8}, {3000, 8}};

TEST(Sums, MultiplySum) {
    std::mt19937_64 random(1);
    for (const Modulus& m : test_moduli(3)) {
        for (const auto& [count, n] : kCases) {
            for (const Fill fill : kFills) {
                const auto a0 = make_limbs(count, n, m, random, fill);
                const auto a1 = make_limbs(count, n, m, random, fill);
                const auto b0 = make_limbs(count, n, m, random, fill);
                const auto b1 = make_limbs(count, n, m, random, fill);
                const auto start = make_limbs(3, n, m, random, fill);
                for (const bool accumulate : {false, true}) {
                    std::vector<Limb> c = start;
                    kernels().multiply_sum(c[0].data(), c[1].data(), c[2].data(), pointers(a0).data(),
                                           pointers(a1).data(), pointers(b0).data(), pointers(b1).data(),
                                           count, accumulate, count % 2 == 0, n, m);
                    const std::vector<Limb> first = accumulate ? start : std::vector<Limb>(3, Limb(n));
                    ASSERT_EQ(c[0], sum_products(a0, b0, first[0], m)) << "q " << m.q << " count " << count;
                    ASSERT_EQ(c[1], sum_products(a1, b0, sum_products(a0, b1, first[1], m), m));
                    ASSERT_EQ(c[2], sum_products(a1, b1, first[2], m));
                }
            }
        }
    }
}

TEST(Sums, MultiplyPlainSum) {
    std::mt19937_64 random(2);
    for (const Modulus& m : test_moduli(3)) {
        for (const auto& [count, n] : kCases) {
            for (const Fill fill : kFills) {
                const auto p = make_limbs(count, n, m, random, fill);
                const auto b0 = make_limbs(count, n, m, random, fill);
                const auto b1 = make_limbs(count, n, m, random, fill);
                const auto start = make_limbs(2, n, m, random, fill);
                std::vector<Limb> plain = p;
                for (Limb& limb : plain) {
                    for (std::uint64_t& x : limb) x = montgomery_reduce(x, m);
                }
                for (const bool accumulate : {false, true}) {
                    for (std::size_t halves = halves_of(m.bits); halves <= 2; ++halves) {
                        std::vector<Limb> c = start;
                        kernels().multiply_plain_sum(c[0].data(), c[1].data(), Factors(p, halves).data(),
                                                     halves, 1, pointers(b0).data(), pointers(b1).data(),
                                                     count, accumulate, n, m);
                        const std::vector<Limb> first = accumulate ? start : std::vector<Limb>(2, Limb(n));
                        ASSERT_EQ(c[0], sum_products(plain, b0, first[0], m))
                            << "q " << m.q << " count " << count;
                        ASSERT_EQ(c[1], sum_products(plain, b1, first[1], m));
                    }
                }
            }
        }
    }
}

// Against the same with every word written out.
TEST(Sums, MultiplyPlainSumOfRepeatedWords) {
    constexpr std::size_t kN = 1536;
    std::mt19937_64 random(7);
    for (const Modulus& m : test_moduli(3)) {
        for (const std::size_t count : {1, 3, 9}) {
            const auto b0 = make_limbs(count, kN, m, random, Fill::kExtremes);
            const auto b1 = make_limbs(count, kN, m, random, Fill::kExtremes);
            const auto start = make_limbs(2, kN, m, random, Fill::kRandom);
            for (const std::size_t repeats : {8, 64, 512, 2048}) {
                const auto p = make_limbs(count, (kN + repeats - 1) / repeats, m, random, Fill::kExtremes);
                std::vector<Limb> whole(count, Limb(kN));
                for (std::size_t t = 0; t < count; ++t) {
                    for (std::size_t i = 0; i < kN; ++i) whole[t][i] = p[t][i / repeats];
                }
                for (const bool accumulate : {false, true}) {
                    std::vector<Limb> wanted = start;
                    scalar().multiply_plain_sum(wanted[0].data(), wanted[1].data(), Factors(whole, 2).data(),
                                                2, 1, pointers(b0).data(), pointers(b1).data(), count,
                                                accumulate, kN, m);
                    for (std::size_t halves = halves_of(m.bits); halves <= 2; ++halves) {
                        std::vector<Limb> c = start;
                        kernels().multiply_plain_sum(c[0].data(), c[1].data(), Factors(p, halves).data(),
                                                     halves, repeats, pointers(b0).data(),
                                                     pointers(b1).data(), count, accumulate, kN, m);
                        ASSERT_EQ(c, wanted) << "q " << m.q << " count " << count << " repeats " << repeats;
                    }
                }
            }
        }
    }
}

// Against whole transforms of polynomials with zeros above their few coefficients: pieces of all sizes, and their ends.
TEST(Sums, MultiplyShortSum) {
    std::mt19937_64 random(3);
    for (const int log_n : {5, 6, 7, 9, 11}) {
        const std::size_t n = std::size_t{1} << log_n;
        for (const Modulus& m : test_moduli(log_n)) {
            const NttTable table(m, log_n);
            for (std::size_t size = 8; size <= n; size *= size < 64 ? 2 : 4) {
                for (const std::size_t count : {1u, 5u, 17u, 70u}) {
                    if (count > 5 && log_n > 9) continue;
                    for (const Fill fill : kFills) {
                        const auto p = make_limbs(count, size, m, random, fill);
                        const auto b0 = make_limbs(count, n, m, random, fill);
                        const auto b1 = make_limbs(count, n, m, random, fill);
                        const auto start = make_limbs(2, n, m, random, fill);
                        std::vector<Limb> whole;
                        for (const Limb& limb : p) {
                            whole.emplace_back(n);
                            std::copy(limb.begin(), limb.end(), whole.back().begin());
                            scalar().ntt(whole.back().data(), table);
                        }
                        const std::size_t width = std::max(size, std::min<std::size_t>(n, 256));
                        Limb scratch(count * width);
                        for (const bool accumulate : {false, true}) {
                            std::vector<Limb> wanted = start, c = start;
                            scalar().multiply_plain_sum(wanted[0].data(), wanted[1].data(),
                                                        Factors(whole, 2).data(), 2, 1, pointers(b0).data(),
                                                        pointers(b1).data(), count, accumulate, n, m);
                            for (std::size_t first = 0; first < n; first += width) {
                                std::vector<const std::uint64_t*> x0, x1;
                                for (const Limb& limb : b0) x0.push_back(limb.data() + first);
                                for (const Limb& limb : b1) x1.push_back(limb.data() + first);
                                kernels().multiply_short_sum(c[0].data() + first, c[1].data() + first,
                                                             pointers(p).data(), size, x0.data(), x1.data(),
                                                             count, accumulate, first, width, scratch.data(),
                                                             table);
                            }
                            ASSERT_EQ(c[0], wanted[0]) << "N " << n << " q " << m.q << " size " << size;
                            ASSERT_EQ(c[1], wanted[1]) << "N " << n << " q " << m.q << " size " << size;
                        }
                    }
                }
            }
        }
    }
}

// Sums so long that every lazy word must have been folded: of (q - 1)^2, the largest product, and of
// (2^26 - 1)(2^26 + 1) = 2^52 - 1, the largest low word. All terms are the same limbs.
Limb make_packed(const Limb& limb, int bits) {
    Limb packed(packed_words(limb.size(), bits));
    pack(packed.data(), limb.data(), limb.size(), bits);
    return packed;
}

TEST(Sums, LongestSumsOfTheLargestWords) {
    constexpr std::size_t kN = 8;
    for (const Modulus& m : {Modulus(primes_below(8, 50, 1)[0]), Modulus(primes_near(8, 0x1p40, 1)[0])}) {
        for (const auto& [x, y] : {std::pair{m.q - 1, m.q - 1},
                                   std::pair{(std::uint64_t{1} << 26) - 1, (std::uint64_t{1} << 26) + 1}}) {
            const Limb a(kN, x), b(kN, y);
            const std::uint64_t product = mul_mod(x, y, m);
            for (const std::size_t count : {2100u, 5000u, 70000u}) {
                const std::vector<const std::uint64_t*> many_a(count, a.data()), many_b(count, b.data());
                const std::uint64_t sum = mul_mod(product, count, m);
                Limb c0(kN), c1(kN), c2(kN);
                kernels().multiply_sum(c0.data(), c1.data(), c2.data(), many_a.data(), many_a.data(),
                                       many_b.data(), many_b.data(), count, false, false, kN, m);
                EXPECT_EQ(c0, Limb(kN, sum));
                EXPECT_EQ(c1, Limb(kN, add_mod(sum, sum, m)));
                EXPECT_EQ(c2, Limb(kN, sum));
                const std::uint64_t scaled = from_montgomery(sum, m);
                const std::vector<const void*> factors(many_a.begin(), many_a.end());
                kernels().multiply_plain_sum(c0.data(), c1.data(), factors.data(), 2, 1, many_b.data(),
                                             many_b.data(), count, false, kN, m);
                EXPECT_EQ(c0, Limb(kN, scaled));
                EXPECT_EQ(c1, Limb(kN, scaled));

                const std::uint64_t* digit = a.data();
                const Limb packed = make_packed(b, 50);
                const std::uint64_t* key = packed.data();
                RotationTerm term;
                term.key_bits = 50;
                term.digits = &digit;
                term.key0 = term.key1 = &key;
                term.digit_count = 1;
                const std::vector<RotationTerm> terms(count, term);
                kernels().accumulate_terms(c0.data(), c1.data(), terms.data(), count, false, 0, kN, m);
                EXPECT_EQ(c0, Limb(kN, scaled));
                EXPECT_EQ(c1, Limb(kN, scaled));
            }
        }
    }
}

// Modulo the largest prime below 2^32, of which factors have half a word.
TEST(Sums, LongestSumsOfTheLargestHalves) {
    constexpr std::size_t kN = 8;
    const Modulus m(primes_below(8, 32, 1)[0]);
    const Limb x(kN, m.q - 1);
    const Factors factor({x}, 1);
    for (const std::size_t count : {2100u, 70000u}) {
        const std::vector<const void*> factors(count, factor.data()[0]);
        const std::vector<const std::uint64_t*> many(count, x.data());
        Limb c0(kN), c1(kN);
        kernels().multiply_plain_sum(c0.data(), c1.data(), factors.data(), 1, 1, many.data(), many.data(),
                                     count, false, kN, m);
        const std::uint64_t sum = mul_mod(mul_mod(m.q - 1, m.q - 1, m), count, m);
        EXPECT_EQ(c0, Limb(kN, from_montgomery(sum, m)));
        EXPECT_EQ(c1, c0);
    }
}

TEST(Sums, OfNothing) {
    const Modulus m(primes_below(8, 50, 1)[0]);
    std::mt19937_64 random(3);
    const Limb start = make_limb(16, m.q, random);
    for (const bool accumulate : {false, true}) {
        Limb c0 = start, c1 = start, c2 = start;
        const Limb expected = accumulate ? start : Limb(16);
        kernels().multiply_sum(c0.data(), c1.data(), c2.data(), nullptr, nullptr, nullptr, nullptr, 0,
                               accumulate, false, 16, m);
        EXPECT_EQ(c0, expected);
        EXPECT_EQ(c1, expected);
        EXPECT_EQ(c2, expected);
        kernels().multiply_plain_sum(c0.data(), c1.data(), nullptr, 2, 1, nullptr, nullptr, 0, accumulate, 16,
                                     m);
        EXPECT_EQ(c0, expected);
        EXPECT_EQ(c1, expected);
    }
    Limb c0 = start, c1 = start;
    kernels().accumulate_terms(c0.data(), c1.data(), nullptr, 0, true, 0, 16, m);
    EXPECT_EQ(c0, start);
    EXPECT_EQ(c1, start);
    kernels().accumulate_terms(c0.data(), c1.data(), nullptr, 0, false, 0, 16, m);
    EXPECT_EQ(c0, Limb(16));
    EXPECT_EQ(c1, Limb(16));
}

// Digits that are not reduced, as a lazy transform of these kernels leaves them: below 2^52, under whatever is above.
Limb make_lazy(const Limb& digit, const Modulus& m, std::mt19937_64& random, Fill fill) {
    Limb lazy = digit;
    for (std::uint64_t& x : lazy) {
        const std::uint64_t most = (kWordMask - x) / m.q;
        x += (fill == Fill::kLargest ? most : random() % (most + 1)) * m.q;
        x |= random() << kWordBits;
    }
    return lazy;
}

TEST(Packing, IsWordByWord) {
    std::mt19937_64 random(5);
    for (const int bits : kPackedBits) {
        for (const std::size_t n : {4u, 8u, 32u, 40u, 512u}) {
            for (const Fill fill : kFills) {
                const Limb x = make_limb(n, std::uint64_t{1} << bits, random, fill);
                const Limb packed = make_packed(x, bits);
                EXPECT_EQ(packed.size(), (n * static_cast<std::size_t>(bits) + 63) / 64);
                Limb unpacked(n);
                unpack(unpacked.data(), packed.data(), n, bits);
                EXPECT_EQ(unpacked, x);
                for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(packed_word(packed.data(), i, bits), x[i]);
            }
        }
    }
    const int sizes[][2] = {{1, 32}, {32, 32}, {33, 40}, {40, 40}, {41, 48}, {48, 48}, {49, 50}, {50, 50}};
    for (const auto& [bits, packed] : sizes) EXPECT_EQ(packed_bits(bits), packed);
}

// Terms of a linear transform with all that they point to. Some have digits that are not reduced, where there are such.
class Terms {
  public:
    Terms(int log_n, const Modulus& m, std::uint64_t seed, Fill fill)
        : m_(m), log_n_(log_n), n_(std::size_t{1} << log_n), fill_(fill), random_(seed) {}

    void add(int digits, bool rotate, bool addend, bool plaintext) {
        Owned& o = *owned_.emplace_back(std::make_unique<Owned>());
        RotationTerm term;
        if (rotate) {
            o.permutation = std::make_unique<Permutation>(random_() % (2 * n_) | 1, log_n_);
            term.permutation = o.permutation.get();
        }
        const auto count = static_cast<std::size_t>(digits);
        o.digits = make_limbs(count, n_, m_, random_, fill_);
        o.key0 = make_limbs(count, n_, m_, random_, fill_);
        o.key1 = make_limbs(count, n_, m_, random_, fill_);
        o.others = make_limbs(3, n_, m_, random_, fill_);
        o.digit_pointers = pointers(o.digits);
        if (std::string(kernels().name) == "avx512ifma" && random_() % 2 == 0) {
            for (const Limb& digit : o.digits) o.read_digits.push_back(make_lazy(digit, m_, random_, fill_));
            o.digit_pointers = pointers(o.read_digits);
        }
        do {
            term.key_bits = kPackedBits[random_() % std::size(kPackedBits)];
        } while (term.key_bits < m_.bits);
        for (const Limb& limb : o.key0) o.read_key0.push_back(make_packed(limb, term.key_bits));
        for (const Limb& limb : o.key1) o.read_key1.push_back(make_packed(limb, term.key_bits));
        o.key0_pointers = pointers(o.read_key0);
        o.key1_pointers = pointers(o.read_key1);
        term.digit_count = digits;
        if (digits > 0) {
            term.digits = o.digit_pointers.data();
            term.key0 = o.key0_pointers.data();
            term.key1 = o.key1_pointers.data();
        }
        if (addend) {
            term.add0 = o.others[0].data();
            // An addend of component 0 alone is what a rotation has; both are what an unrotated term has.
            if (digits == 0) term.add1 = o.others[1].data();
            term.add_factor = random_() % 2 == 0 ? m_.r_mod_q : make_limb(8, m_.q, random_, fill_)[0];
        }
        if (plaintext) term.plaintext = o.others[2].data();
        terms_.push_back(term);
    }

    void expect_sum() {
        const Limb start0 = make_limb(n_, m_.q, random_, fill_), start1 = make_limb(n_, m_.q, random_, fill_);
        // In one piece, or cut at some place.
        const std::size_t cut = n_ % 3 == 1 ? n_ : n_ / 8 / 3 * 8;
        const Limb sum0 = component(0), sum1 = component(1);
        for (const bool accumulate : {false, true}) {
            Limb out0 = start0, out1 = start1, expected0 = sum0, expected1 = sum1;
            for (const auto& [begin, end] : {std::pair{std::size_t{0}, cut}, std::pair{cut, n_}}) {
                if (begin == end) continue;
                kernels().accumulate_terms(out0.data() + begin, out1.data() + begin, terms_.data(),
                                           terms_.size(), accumulate, begin, end, m_);
            }
            for (std::size_t i = 0; accumulate && i < n_; ++i) {
                expected0[i] = add_mod(expected0[i], start0[i], m_);
                expected1[i] = add_mod(expected1[i], start1[i], m_);
            }
            ASSERT_EQ(out0, expected0) << "q " << m_.q << " n " << n_ << " terms " << terms_.size();
            ASSERT_EQ(out1, expected1) << "q " << m_.q << " n " << n_ << " terms " << terms_.size();
        }
        if (n_ >= 16) expect_sum_of_halves(sum0, sum1);
    }

  private:
    // With digits and addends of which the terms have no more than the half that they read.
    void expect_sum_of_halves(const Limb& sum0, const Limb& sum1) const {
        const std::size_t half = n_ / 2;
        Limb out0(n_, 1), out1(n_, 1);
        for (const std::size_t begin : {std::size_t{0}, half}) {
            std::vector<RotationTerm> terms = terms_;
            std::vector<std::vector<Limb>> words(terms.size());
            std::vector<std::vector<const std::uint64_t*>> digits(terms.size());
            for (std::size_t t = 0; t < terms.size(); ++t) {
                RotationTerm& term = terms[t];
                const std::size_t source =
                    term.permutation == nullptr ? begin : term.permutation->index[begin];
                term.start = source / half * half;
                const auto copy = [&](const std::uint64_t* limb) {
                    words[t].emplace_back(limb + term.start, limb + term.start + half);
                    return words[t].back().data();
                };
                for (int j = 0; j < term.digit_count; ++j) digits[t].push_back(copy(term.digits[j]));
                term.digits = digits[t].data();
                if (term.add0 != nullptr) term.add0 = copy(term.add0);
                if (term.add1 != nullptr) term.add1 = copy(term.add1);
            }
            kernels().accumulate_terms(out0.data() + begin, out1.data() + begin, terms.data(), terms.size(),
                                       false, begin, begin + half, m_);
        }
        ASSERT_EQ(out0, sum0) << "by halves, q " << m_.q << " n " << n_;
        ASSERT_EQ(out1, sum1) << "by halves, q " << m_.q << " n " << n_;
    }

    struct Owned {
        std::unique_ptr<Permutation> permutation;
        std::vector<Limb> digits, key0, key1, others;         // reduced, not packed
        std::vector<Limb> read_digits, read_key0, read_key1;  // what the terms point to instead
        std::vector<const std::uint64_t*> digit_pointers, key0_pointers, key1_pointers;
    };

    Limb component(int c) const {
        const std::uint64_t radix_inverse = from_montgomery(1, m_);
        Limb sum(n_);
        for (std::size_t t = 0; t < terms_.size(); ++t) {
            const RotationTerm& term = terms_[t];
            const std::vector<Limb>& digits = owned_[t]->digits;
            const std::vector<Limb>& key = c == 0 ? owned_[t]->key0 : owned_[t]->key1;
            const std::uint64_t* addend = c == 0 ? term.add0 : term.add1;
            for (std::size_t i = 0; i < n_; ++i) {
                const std::size_t source = term.permutation == nullptr ? i : term.permutation->index[i];
                std::uint64_t x = 0;
                for (std::size_t j = 0; j < digits.size(); ++j) {
                    x = add_mod(x, mul_mod(digits[j][source], key[j][i], m_), m_);
                }
                if (addend != nullptr) x = add_mod(x, mul_mod(addend[source], term.add_factor, m_), m_);
                x = mul_mod(x, radix_inverse, m_);
                if (term.plaintext != nullptr) {
                    x = mul_mod(x, mul_mod(term.plaintext[i], radix_inverse, m_), m_);
                }
                sum[i] = add_mod(sum[i], x, m_);
            }
        }
        return sum;
    }

    Modulus m_;
    int log_n_;
    std::size_t n_;
    Fill fill_;
    std::mt19937_64 random_;
    std::vector<std::unique_ptr<Owned>> owned_;
    std::vector<RotationTerm> terms_;
};

TEST(AccumulateTerms, OneTermOfEveryKind) {
    for (const int log_n : {3, 5, 11}) {
        for (const Modulus& m : test_moduli(log_n)) {
            for (const Fill fill : kFills) {
                for (const int digits : {0, 1, 2, 3, 4, 5, 8, 9, 33}) {
                    for (int flags = 0; flags < 8; ++flags) {
                        Terms terms(log_n, m, 8 * digits + flags, fill);
                        terms.add(digits, flags & 1, flags & 2, flags & 4);
                        terms.expect_sum();
                    }
                    if (log_n == 11 && digits > 3) break;  // the kinds are covered by the small degrees
                }
            }
        }
    }
}

TEST(AccumulateTerms, ManyTerms) {
    struct Many {
        int log_n, count, digits;
    };
    for (const Many& many :
         {Many{10, 2, 3}, Many{10, 3, 2}, Many{9, 40, 3}, Many{4, 64, 3}, Many{3, 341, 3}, Many{3, 342, 3},
          Many{4, 9, 7}, Many{4, 9, 8}, Many{3, 1000, 3}, Many{3, 2500, 1}, Many{3, 100, 40}}) {
        for (const Modulus& m : test_moduli(many.log_n)) {
            for (const Fill fill : kFills) {
                for (const bool plaintext : {false, true}) {
                    Terms terms(many.log_n, m, many.count, fill);
                    for (int t = 0; t < many.count; ++t) terms.add(many.digits, t % 7 != 0, true, plaintext);
                    terms.expect_sum();
                }
            }
        }
    }
}

TEST(AccumulateTerms, TermsOfAllKindsTogether) {
    const int log_n = 6;
    for (const Modulus& m : test_moduli(log_n)) {
        for (const Fill fill : kFills) {
            Terms terms(log_n, m, 1, fill);
            std::mt19937_64 random(2);
            for (int t = 0; t < 100; ++t) {
                terms.add(static_cast<int>(random() % 6), random() % 2, random() % 2, random() % 2);
            }
            terms.expect_sum();
        }
    }
}

}  // namespace
}  // namespace cipherblas
