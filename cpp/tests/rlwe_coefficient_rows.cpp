// Batches of rows in coefficient form, compared with schoolbook products.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "arith/primes.h"
#include "ring/samplers.h"
#include "ring_support.h"
#include "rlwe/coefficient_rows.h"
#include "rlwe/encryption.h"
#include "rows_support.h"

namespace cipherblas {
namespace {

using testing::Batch;
using testing::kLimbs;
using testing::Limb;
using testing::make_limb;
using testing::product_coefficient;

void expect_round_trip(std::size_t n, std::size_t rows, std::size_t width, RowSharing sharing,
                       double largest) {
    const Batch batch(n, rows, width, sharing, largest);
    const double scale = 4096.0;
    Limb b(kLimbs * rows * width);
    encrypt_rows(batch.context, batch.layout, batch.view(), batch.a.data(), batch.words.data(),
                 batch.messages(scale), kLimbs, b.data());
    const std::vector<std::int64_t> noise = batch.noise();
    for (int limb = 0; limb < kLimbs; ++limb) {
        const Modulus& m = batch.context.modulus(limb);
        for (std::size_t i = 0; i < rows * width; ++i) {
            const double message = batch.rounded(scale, i);
            std::int64_t entry =
                static_cast<std::int64_t>(std::fmod(message, static_cast<double>(m.q))) + noise[i];
            while (entry < 0) entry += static_cast<std::int64_t>(m.q);
            const std::uint64_t expected =
                sub_mod(static_cast<std::uint64_t>(entry) % m.q, batch.phase(limb, i / width, i % width), m);
            ASSERT_EQ(b[static_cast<std::size_t>(limb) * rows * width + i], expected) << limb << " " << i;
        }
    }
    std::vector<double> found(rows * width);
    decrypt_rows(batch.context, batch.layout, batch.view(), batch.a.data(), b.data(), kLimbs, scale,
                 found.data());
    for (std::size_t i = 0; i < found.size(); ++i) {
        const double message = batch.rounded(scale, i) + static_cast<double>(noise[i]);
        EXPECT_LE(std::abs(found[i] * scale - message), std::abs(message) * 0x1p-51) << i;
    }
}

TEST(CoefficientRows, EncryptsEntryByEntry) {
    for (const std::size_t n : {8u, 64u}) {
        for (const std::size_t width : {std::size_t{1}, std::size_t{3}, n / 2, n - 1, n}) {
            expect_round_trip(n, 3, width, RowSharing::kSecrets, 1e6);
            expect_round_trip(n, 3, width, RowSharing::kMasks, 1e6);
        }
        for (const std::size_t width : {n + 1, 2 * n, 2 * n + n / 2 + 1}) {
            expect_round_trip(n, 5, width, RowSharing::kSecrets, 1e6);
            expect_round_trip(n, 5, width, RowSharing::kMasks, 1e6);
        }
    }
}

TEST(CoefficientRows, MessagesMayExceedAWord) {
    expect_round_trip(16, 4, 16, RowSharing::kSecrets, 0x1p80);
    expect_round_trip(16, 4, 40, RowSharing::kMasks, 0x1p80);
}

TEST(CoefficientRows, PublicKeyHidesTheMessageInBothParts) {
    const std::size_t n = 64, rows = 3, width = 20;
    const Batch batch(n, rows, width, RowSharing::kSecrets, 1e6);
    std::mt19937_64 random(1);
    // A public key without an error: then b + a s is e_0 + e_1 s + m.
    Limb key(2 * kLimbs * n);
    const CiphertextView view{key.data(), 2, kLimbs, static_cast<std::ptrdiff_t>(kLimbs * n),
                              static_cast<std::ptrdiff_t>(n)};
    for (int limb = 0; limb < kLimbs; ++limb) {
        const Modulus& m = batch.context.modulus(limb);
        const std::size_t offset = static_cast<std::size_t>(limb) * n;
        const Limb uniform = make_limb(n, m.q, random);
        std::copy(uniform.begin(), uniform.end(),
                  key.begin() + static_cast<std::ptrdiff_t>(kLimbs * n + offset));
        Limb product(n);
        testing::scalar().mul(product.data(), uniform.data(), batch.view().limb(0, limb), n, m);
        testing::scalar().neg(key.data() + offset, product.data(), n, m);
    }
    const std::size_t count = n + kTernarySpareBytes;
    std::vector<std::uint8_t> ternary(rows * count);
    for (std::uint8_t& x : ternary) x = static_cast<std::uint8_t>(random());
    const Limb e1 = make_limb(rows * n, ~std::uint64_t{0}, random);
    Limb a(kLimbs * rows * n), b(kLimbs * rows * width);
    encrypt_rows_public(batch.context, batch.layout, view,
                        {ternary.data(), count, batch.words.data(), e1.data()}, batch.messages(1.0), kLimbs,
                        a.data(), b.data());
    std::vector<double> found(rows * width);
    decrypt_rows(batch.context, batch.layout, batch.view(), a.data(), b.data(), kLimbs, 1.0, found.data());
    std::vector<std::int64_t> e1_noise(rows * n);
    sample_gaussian(e1_noise.data(), e1.data(), e1_noise.size());
    const std::vector<std::int64_t> e0 = batch.noise();
    for (std::size_t i = 0; i < found.size(); ++i) {
        const std::size_t row = i / width, place = i % width * (n / 32);
        std::int64_t error = e0[i];
        for (std::size_t j = 0; j < n; ++j) {
            const std::int64_t s = batch.secrets[0][(place + n - j) % n];
            error += (j > place ? -s : s) * e1_noise[row * n + j];
        }
        EXPECT_EQ(found[i], batch.rounded(1.0, i) + static_cast<double>(error)) << i;
    }
}

TEST(CoefficientRows, TransformsThereAndBack) {
    const std::size_t n = 64, rows = 5;
    const Batch batch(n, rows, n, RowSharing::kSecrets, 1.0);
    Limb ntt(batch.a.size()), back(batch.a.size());
    rows_to_ntt(batch.context, batch.a.data(), rows, kLimbs, ntt.data());
    for (std::size_t i = 0; i < kLimbs * rows; ++i) {
        const std::size_t limb = i / rows, row = i % rows;
        Limb expected(batch.a.begin() + static_cast<std::ptrdiff_t>(i * n),
                      batch.a.begin() + static_cast<std::ptrdiff_t>((i + 1) * n));
        testing::scalar().ntt(expected.data(), batch.context.table(static_cast<int>(limb)));
        for (std::size_t j = 0; j < n; ++j) ASSERT_EQ(ntt[(row * kLimbs + limb) * n + j], expected[j]);
    }
    rows_from_ntt(batch.context, ntt.data(), rows, kLimbs, back.data());
    EXPECT_EQ(back, batch.a);
}

TEST(CoefficientRows, LinearOperationsOfAnyLength) {
    const Context context(16, primes_below(16, 50, kLimbs), {}, 1);
    std::mt19937_64 random(3);
    for (const std::size_t words : {1u, 7u, 64u, 5000u, 20001u}) {
        for (const testing::Fill fill : testing::kFills) {
            Limb x, y, sum(kLimbs * words), difference(sum), multiple(sum);
            std::uint64_t factor[kLimbs];
            for (int limb = 0; limb < kLimbs; ++limb) {
                const std::uint64_t q = context.modulus(limb).q;
                for (Limb* const z : {&x, &y}) {
                    const Limb part = make_limb(words, q, random, fill);
                    z->insert(z->end(), part.begin(), part.end());
                }
                factor[limb] = fill == testing::Fill::kLargest ? q - 1 : random() % q;
            }
            add_limbs(context, x.data(), y.data(), words, kLimbs, sum.data());
            subtract_limbs(context, x.data(), y.data(), words, kLimbs, difference.data());
            scale_limbs(context, x.data(), factor, words, kLimbs, multiple.data());
            for (std::size_t i = 0; i < kLimbs * words; ++i) {
                const std::uint64_t q = context.modulus(static_cast<int>(i / words)).q;
                ASSERT_EQ(sum[i], (x[i] + y[i]) % q);
                ASSERT_EQ(difference[i], (x[i] + q - y[i]) % q);
                ASSERT_EQ(multiple[i],
                          static_cast<std::uint64_t>(static_cast<u128>(x[i]) * factor[i / words] % q));
            }
        }
    }
}

TEST(CoefficientRows, DivisionByTheLastPrimeIsRounded) {
    std::vector<std::uint64_t> primes = primes_below(16, 50, kLimbs);
    primes.push_back(primes_below(16, 17, 1).front());
    const Context context(16, primes, {}, 1);
    std::mt19937_64 random(4);
    for (const int limbs : {2, kLimbs + 1}) {
        const int kept = limbs - 1;
        const auto dropped = static_cast<std::int64_t>(context.modulus(kept).q);
        for (const std::size_t words : {1u, 7u, 1024u, 5000u}) {
            for (const testing::Fill fill : testing::kFills) {
                Limb x;
                for (int limb = 0; limb < limbs; ++limb) {
                    const Limb part = make_limb(words, context.modulus(limb).q, random, fill);
                    x.insert(x.end(), part.begin(), part.end());
                }
                Limb found(static_cast<std::size_t>(kept) * words);
                rescale_limbs(context, x.data(), words, limbs, found.data());
                for (std::size_t i = 0; i < found.size(); ++i) {
                    const Modulus m = context.modulus(static_cast<int>(i / words));
                    const auto q = static_cast<std::int64_t>(m.q);
                    const auto last =
                        static_cast<std::int64_t>(x[static_cast<std::size_t>(kept) * words + i % words]);
                    const std::int64_t centred = last > dropped / 2 ? last - dropped : last;
                    const std::int64_t residue = (centred % q + q) % q;
                    // found * dropped + [x] = x
                    const auto product = static_cast<std::uint64_t>(
                        static_cast<u128>(found[i]) * static_cast<std::uint64_t>(dropped) % m.q);
                    ASSERT_LT(found[i], m.q);
                    ASSERT_EQ(add_mod(product, static_cast<std::uint64_t>(residue), m), x[i]);
                }
            }
        }
    }
}

}  // namespace
}  // namespace cipherblas
