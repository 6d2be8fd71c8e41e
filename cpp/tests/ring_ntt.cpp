#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "ring/bit_reverse.h"
#include "ring/ntt.h"
#include "ring_support.h"

namespace cipherblas {
namespace {

using testing::Fill;
using testing::finish_ntt;
using testing::kFills;
using testing::kWatched;
using testing::Limb;
using testing::make_limb;
using testing::pointers;
using testing::scalar;
using testing::test_moduli;

// 2^14 already takes passes of every radix, and the largest one twice.
constexpr int kLargestLogN = kWatched ? 14 : 17;

// a * b mod X^n + 1.
Limb schoolbook_product(const Limb& a, const Limb& b, const Modulus& m) {
    const std::size_t n = a.size();
    Limb r(n);
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
            const std::uint64_t product = mul_mod(a[i], b[j], m);
            std::uint64_t& target = r[(i + j) % n];
            target = i + j < n ? add_mod(target, product, m) : sub_mod(target, product, m);
        }
    }
    return r;
}

TEST(NttTable, RootsAreWhatTheyAreCalled) {
    for (const int log_n : {3, 6, 10}) {
        const std::uint32_t n = 1u << log_n;
        for (const Modulus& m : test_moduli(log_n)) {
            const NttTable table(m, log_n);
            EXPECT_EQ(pow_mod(table.psi, n, m), m.q - 1);
            EXPECT_EQ(mul_mod(table.n_inverse, n % m.q, m), 1u);
            for (std::uint32_t i = 0; i < n; ++i) {
                const std::uint64_t w = pow_mod(table.psi, bit_reverse(i, log_n), m);
                ASSERT_EQ(table.roots.plain[i], w);
                ASSERT_EQ(table.roots.quotient[i], static_cast<std::uint64_t>((u128{w} << 52) / m.q));
                ASSERT_EQ(mul_mod(table.inverse_roots.plain[i], w, m), 1u);
            }
        }
    }
}

TEST(NttTable, PsiIsTheSmallestPrimitiveRoot) {
    for (const Modulus& m : test_moduli(4)) {
        const NttTable table(m, 4);
        std::uint64_t power = table.psi;
        for (int i = 0; i < 16; ++i) {
            EXPECT_LE(table.psi, power);
            power = mul_mod(power, mul_mod(table.psi, table.psi, m), m);
        }
    }
}

TEST(NttTable, RejectsBadArguments) {
    const Modulus m(primes_below(1 << 10, 50, 1)[0]);
    EXPECT_THROW(NttTable(m, 2), std::invalid_argument);
    EXPECT_THROW(NttTable(m, 18), std::invalid_argument);
    EXPECT_THROW(NttTable(Modulus(1125899906842597), 10),
                 std::invalid_argument);                               // prime, but not 1 mod 2048
    EXPECT_THROW(NttTable(Modulus(2049), 10), std::invalid_argument);  // 1 mod 2048, but 3 * 683
}

TEST(Ntt, EvaluatesAtBitReversedOddPowersOfPsi) {
    std::mt19937_64 random(1);
    for (int log_n = 3; log_n <= 8; ++log_n) {
        const std::uint32_t n = 1u << log_n;
        for (const Modulus& m : test_moduli(log_n)) {
            const NttTable table(m, log_n);
            const Limb a = make_limb(n, m.q, random);
            Limb x = a;
            kernels().ntt(x.data(), table);
            for (std::uint32_t i = 0; i < n; ++i) {
                const std::uint64_t point = pow_mod(table.psi, 2 * bit_reverse(i, log_n) + 1, m);
                std::uint64_t value = 0;
                for (std::uint32_t j = n; j-- > 0;) value = add_mod(mul_mod(value, point, m), a[j], m);
                ASSERT_EQ(x[i], value) << "n " << n << " q " << m.q << " position " << i;
            }
        }
    }
}

TEST(Ntt, ProductIsTheNegacyclicConvolution) {
    std::mt19937_64 random(2);
    for (int log_n = 3; log_n <= 10; ++log_n) {
        const std::size_t n = std::size_t{1} << log_n;
        for (const Modulus& m : test_moduli(log_n)) {
            const NttTable table(m, log_n);
            for (const Fill fill : {Fill::kRandom, Fill::kLargest}) {
                Limb a = make_limb(n, m.q, random, fill);
                Limb b = make_limb(n, m.q, random, Fill::kExtremes);
                const Limb expected = schoolbook_product(a, b, m);
                kernels().ntt(a.data(), table);
                kernels().ntt(b.data(), table);
                kernels().mul(a.data(), a.data(), b.data(), n, m);
                kernels().intt(a.data(), table);
                ASSERT_EQ(a, expected) << "n " << n << " q " << m.q;
            }
        }
    }
}

TEST(Ntt, EqualsTheScalarTransformAndInverts) {
    std::mt19937_64 random(3);
    for (int log_n = 3; log_n <= kLargestLogN; ++log_n) {
        const std::size_t n = std::size_t{1} << log_n;
        for (const Modulus& m : test_moduli(log_n)) {
            const NttTable table(m, log_n);
            for (const Fill fill : kFills) {
                const Limb a = make_limb(n, m.q, random, fill);
                Limb x = a;
                Limb reference = a;
                kernels().ntt(x.data(), table);
                scalar().ntt(reference.data(), table);
                ASSERT_EQ(x, reference) << "forward, n " << n << " q " << m.q;
                kernels().intt(x.data(), table);
                ASSERT_EQ(x, a) << "round trip, n " << n << " q " << m.q;
                Limb y = a;
                reference = a;
                kernels().intt(y.data(), table);
                scalar().intt(reference.data(), table);
                ASSERT_EQ(y, reference) << "inverse, n " << n << " q " << m.q;
            }
        }
    }
}

// Words of every size, and what is next to where kernels may change their way: whole and symmetric.
TEST(Ntt, OfSignedWordsEqualsItsSteps) {
    std::mt19937_64 random(13);
    const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
    for (int log_n = 3; log_n <= std::min(kLargestLogN, 14); ++log_n) {
        const std::size_t n = std::size_t{1} << log_n;
        for (const Modulus& m : test_moduli(log_n)) {
            const NttTable table(m, log_n);
            for (const int bits : {1, m.bits - 1, m.bits, 50, 51, 63}) {
                if (log_n > 11 && bits != 51) continue;
                const std::int64_t bound = bits == 63 ? largest : (std::int64_t{1} << bits) - 1;
                AlignedVector<std::int64_t> a(n);
                for (std::int64_t& x : a) {
                    const std::uint64_t word = random();
                    const auto size = static_cast<std::int64_t>(word >> (64 - bits));
                    x = (word & 2) == 0 ? size : (word & 4) == 0 ? -size : (word & 8) == 0 ? bound : -bound;
                }
                for (const bool symmetric : {false, true}) {
                    if (symmetric) {
                        a[n / 2] = 0;
                        for (std::size_t k = 1; k < n / 2; ++k) a[n - k] = -a[k];
                    }
                    for (const std::uint64_t factor : {m.r_mod_q, std::uint64_t{1}}) {
                        Limb expected(n), got(n);
                        scalar().from_signed(expected.data(), a.data(), n, m);
                        scalar().mul_scalar(expected.data(), expected.data(), factor, n, m);
                        scalar().ntt(expected.data(), table);
                        kernels().ntt_of_signed(got.data(), a.data(), factor, symmetric, table);
                        ASSERT_EQ(got, expected) << "n " << n << " q " << m.q << " bits " << bits
                                                 << " factor " << factor << " symmetric " << symmetric;
                    }
                }
            }
        }
    }
}

TEST(Ntt, ScaledAndShiftedInverseEqualsItsSteps) {
    std::mt19937_64 random(4);
    for (int log_n = 3; log_n <= kLargestLogN; ++log_n) {
        const std::size_t n = std::size_t{1} << log_n;
        for (const Modulus& m : test_moduli(log_n)) {
            const NttTable table(m, log_n);
            const Limb a = make_limb(n, m.q, random, Fill::kExtremes);
            const Limb b = make_limb(n, m.q, random, Fill::kExtremes);
            for (const std::uint64_t factor : {std::uint64_t{0}, std::uint64_t{1}, m.q - 1, random() % m.q}) {
                Limb reference(n);
                scalar().mul_scalar(reference.data(), a.data(), factor, n, m);
                scalar().intt(reference.data(), table);
                const std::uint64_t shift = factor == 1 ? m.q / 2 : factor == m.q - 1 ? m.q - 1 : 0;
                const auto shifted = [&](Limb& x) {
                    for (std::uint64_t& word : x) word = add_mod(word, shift, m);
                };
                shifted(reference);
                Limb apart(n), scratch(n);
                const std::size_t parts = static_cast<std::size_t>(kernels().ntt_parts(log_n));
                const PieceLayout natural{n / parts, 0};
                kernels().intt_scaled(apart.data(), a.data(), nullptr, scratch.data(), factor, shift, natural,
                                      false, table);
                ASSERT_EQ(apart, reference) << "n " << n << " q " << m.q << " factor " << factor;
                Limb in_place = a;
                kernels().intt_scaled(in_place.data(), in_place.data(), nullptr, scratch.data(), factor,
                                      shift, natural, false, table);
                ASSERT_EQ(in_place, reference) << "in place, n " << n << " q " << m.q << " factor " << factor;
                Limb of_product(n), product(n);
                kernels().intt_scaled(of_product.data(), a.data(), b.data(), scratch.data(), factor, shift,
                                      natural, false, table);
                scalar().mul(product.data(), a.data(), b.data(), n, m);
                scalar().mul_scalar(product.data(), product.data(), factor, n, m);
                scalar().intt(product.data(), table);
                shifted(product);
                ASSERT_EQ(of_product, product) << "of a product, n " << n << " q " << m.q;
                if (parts == 1) continue;
                const PieceLayout pieces{32, 3 * 32 * parts};  // of three limbs
                Limb block(3 * n);
                kernels().intt_scaled(block.data() + 32 * parts, a.data(), nullptr, scratch.data(), factor,
                                      shift, pieces, shift == 0, table);
                for (std::size_t i = 0; i < n; ++i) {
                    const std::size_t part = i / (n / parts), word = i % (n / parts);
                    const std::size_t place = (word / 32 * 3 + 1) * 32 * parts + part * 32 + word % 32;
                    ASSERT_EQ(block[place], reference[i]) << "in pieces, n " << n << " q " << m.q;
                }
            }
        }
    }
}

// A conversion in the kernels' form: what base_convert_ntt and ntt_part make of it equals base_convert and ntt.
class BegunTransforms {
  public:
    BegunTransforms(const NttTable& table, const std::vector<std::uint64_t>& source_primes, Fill fill)
        : m_(table.modulus), table_(table), n_(std::size_t{1} << table.log_n), count_(source_primes.size()) {
        std::vector<double> reciprocals;
        for (const std::uint64_t d : source_primes) {
            y_.push_back(make_limb(n_, d, random_, fill));
            reciprocals.push_back(1.0 / static_cast<double>(d));
        }
        Limb v(n_, 1);
        factors_ = make_limb(count_ + 1, m_.q, random_, fill);
        source_ = source_primes[0];
        if (count_ == 1) {
            factors_ = {m_.r_mod_q, to_montgomery(sub_mod(0, source_ / 2 % m_.q, m_), m_)};
        } else {
            kernels().base_overflow(v.data(), pointers(y_).data(), reciprocals.data(),
                                    static_cast<int>(count_), n_);
        }
        y_.push_back(v);
    }

    Limb converted() {
        Limb r(n_);
        scalar().base_convert(r.data(), pointers(y_).data(), factors_.data(), static_cast<int>(count_),
                              y_.back().data(), factors_.back(), n_, m_);
        return r;
    }

    // Pieces of `length` words per part, read in place or from a copy; without the overflow where it may be left out.
    Limb begun(std::size_t length, bool packs) {
        Limb r(n_);
        const std::size_t parts = static_cast<std::size_t>(kernels().ntt_parts(table_.log_n));
        const std::size_t part = n_ / parts;
        std::vector<const std::uint64_t*> sources(count_ + 1);
        std::vector<Limb> copies;
        for (std::size_t offset = 0; offset < part; offset += length) {
            const std::size_t words = std::min(length, part - offset);
            if (packs && (offset == 0 || words < length)) {
                copies = std::vector<Limb>(count_ + 1, Limb(parts * words));
            }
            for (std::size_t i = 0; i <= count_; ++i) {
                for (std::size_t p = 0; packs && p < parts; ++p) {
                    std::copy_n(y_[i].data() + p * part + offset, words, copies[i].data() + p * words);
                }
                sources[i] = packs ? copies[i].data() : y_[i].data() + offset;
            }
            if (count_ == 1 && source_ <= ConversionPiece::kNear * m_.q) sources.back() = nullptr;
            kernels().base_convert_ntt(r.data(), {sources.data(), packs ? words : part, offset, words},
                                       {factors_.data(), static_cast<int>(count_), source_}, packs, table_);
        }
        return r;
    }

    // A single near source: the same, each half of the parts by itself.
    Limb begun_in_halves() {
        Limb r(n_);
        const std::size_t part = n_ / static_cast<std::size_t>(kernels().ntt_parts(table_.log_n));
        const std::uint64_t* const y[2] = {y_[0].data(), nullptr};
        for (const auto parts : {ConversionPiece::Parts::kFirstHalf, ConversionPiece::Parts::kSecondHalf}) {
            const std::size_t begin = parts == ConversionPiece::Parts::kFirstHalf ? 0 : n_ / 2;
            kernels().base_convert_ntt(r.data() + begin, {y, part, 0, part, parts},
                                       {factors_.data(), 1, source_}, false, table_);
        }
        return r;
    }

  private:
    std::mt19937_64 random_{5};
    const Modulus& m_;
    const NttTable& table_;
    std::size_t n_, count_;
    std::vector<Limb> y_;  // and the overflow
    Limb factors_;
    std::uint64_t source_ = 0;
};

TEST(Ntt, BegunByAConversionEqualsConversionAndTransform) {
    for (int log_n = 3; log_n <= kLargestLogN; ++log_n) {
        const std::uint64_t n = std::uint64_t{1} << log_n;
        const std::vector<std::uint64_t> large = primes_below(n, 50, 14);
        const std::vector<std::uint64_t> small = primes_near(n, static_cast<double>(2 * n + 1), 1);
        for (const Modulus& m :
             {Modulus(large[13]), Modulus(primes_below(n, 48, 1)[0]), Modulus(primes_below(n, 46, 1)[0]),
              Modulus(primes_near(n, 0x1p40, 1)[0]), Modulus(small[0])}) {
            const NttTable table(m, log_n);
            // Ten sources and their overflow are the last that need no reduction before the transform.
            for (const std::size_t count : {1u, 2u, 10u, 11u, 12u, 13u}) {
                for (const Fill fill : {Fill::kRandom, Fill::kLargest, Fill::kExtremes}) {
                    if (log_n > 13 && (count == 10 || fill == Fill::kRandom)) continue;
                    BegunTransforms transforms(table, {large.begin(), large.begin() + count}, fill);
                    Limb expected = transforms.converted();
                    scalar().ntt(expected.data(), table);
                    for (const bool packs : {false, true}) {
                        Limb x = transforms.begun(packs ? 40 : 104, packs);
                        finish_ntt(x.data(), table);
                        ASSERT_EQ(x, expected) << "n " << n << " q " << m.q << " sources " << count;
                    }
                }
            }
        }
    }
}

TEST(Ntt, BegunByASingleSourceEqualsConversionAndTransform) {
    for (const int log_n : {5, 11, 12, 13}) {  // one part, four and eight
        const std::size_t n = std::size_t{1} << log_n;
        for (const int bits : {40, 46, 47, 48, 49}) {
            const Modulus m(primes_below(n, bits, 2)[1]);
            const NttTable table(m, log_n);
            const double q = static_cast<double>(m.q);
            // Up to four and up to eight times the target, and beyond.
            for (const double ratio :
                 {0.01, 0.3, 0.999, 1.001, 1.9, 2.1, 3.99, 4.01, 7.0, 7.99, 8.01, 100.0}) {
                if (q * ratio >= 0x1p50) continue;
                const std::uint64_t source = primes_near(n, q * ratio, 1)[0];
                for (const Fill fill : {Fill::kRandom, Fill::kLargest, Fill::kExtremes}) {
                    BegunTransforms transforms(table, {source}, fill);
                    Limb expected = transforms.converted();
                    scalar().ntt(expected.data(), table);
                    Limb x = transforms.begun(n, false);
                    finish_ntt(x.data(), table);
                    ASSERT_EQ(x, expected) << "n " << n << " q " << m.q << " source " << source;
                    if (kernels().ntt_parts(log_n) == 1 || ratio > 8.0) continue;
                    Limb halves = transforms.begun_in_halves();
                    finish_ntt(halves.data(), table);
                    ASSERT_EQ(halves, expected) << "halves, n " << n << " q " << m.q << " source " << source;
                }
            }
        }
    }
}

TEST(Ntt, PartsTogetherEqualTransformsOneByOne) {
    std::mt19937_64 random(6);
    for (int log_n = 3; log_n <= kLargestLogN; ++log_n) {
        const std::size_t n = std::size_t{1} << log_n;
        const std::vector<std::uint64_t> primes = primes_below(n, 50, 3);
        for (std::size_t count = 0; count <= 5; ++count) {
            const Modulus m(count % 3 == 0 ? primes[2] : primes_below(n, count % 3 == 1 ? 48 : 46, 1)[0]);
            const NttTable table(m, log_n);
            const bool lazy = (static_cast<std::size_t>(log_n) + count) % 2 == 0;
            const std::uint64_t factor = random() % m.q;
            std::vector<Limb> x, y, addends, expected, sums, results(count, Limb(n));
            for (std::size_t k = 0; k < count; ++k) {
                BegunTransforms transforms(table, {primes[0], primes[1]}, kFills[k % kFills.size()]);
                x.push_back(transforms.begun(n, false));
                expected.push_back(transforms.converted());
                scalar().ntt(expected[k].data(), table);
                addends.push_back(make_limb(n, m.q, random, Fill::kExtremes));
                sums.emplace_back(n);
                scalar().add_mul_scalar(sums[k].data(), addends[k].data(), expected[k].data(), factor, n, m);
            }
            y = x;
            std::vector<Limb> work(count, Limb(n));
            const int parts = kernels().ntt_parts(log_n);
            for (int part = 0; part < parts; ++part) {
                const std::size_t words = n / static_cast<std::size_t>(parts);
                const std::size_t begin = static_cast<std::size_t>(part) * words;
                const std::size_t next = part + 1 < parts ? begin + words : 0;
                std::vector<std::uint64_t*> x_part, work_part, r_part;
                std::vector<const std::uint64_t*> a_part, y_part, from_part, upcoming;
                for (std::size_t k = 0; k < count; ++k) {
                    // In place and apart in turn.
                    x_part.push_back(x[k].data() + begin);
                    from_part.push_back((k % 2 == 0 ? x[k] : y[k]).data() + begin);
                    y_part.push_back(y[k].data() + begin);
                    work_part.push_back((k % 2 == 0 ? y[k] : work[k]).data() + begin);
                    r_part.push_back((k % 2 == 0 ? results[k] : addends[k]).data() + begin);
                    a_part.push_back(addends[k].data() + begin);
                    upcoming.push_back(x[k].data() + next);
                }
                const Upcoming fetched{upcoming.data(), upcoming.size()};
                kernels().ntt_part(x_part.data(), from_part.data(), count, part, lazy, fetched, table);
                kernels().ntt_part_add_mul_scalar(r_part.data(), a_part.data(), y_part.data(),
                                                  work_part.data(), count, factor, part, count % 2 == 0,
                                                  fetched, table);
            }
            for (std::size_t k = 0; k < count; ++k) {
                for (std::uint64_t& word : x[k]) word = lazy ? (word & kWordMask) % m.q : word;
                ASSERT_EQ(x[k], expected[k]) << "n " << n << ", row " << k << " of " << count;
                ASSERT_EQ(k % 2 == 0 ? results[k] : addends[k], sums[k])
                    << "n " << n << ", row " << k << " of " << count;
            }
        }
    }
}

}  // namespace
}  // namespace cipherblas
