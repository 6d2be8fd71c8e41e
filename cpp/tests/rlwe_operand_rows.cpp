// Operands with moduli of their own, compared with schoolbook products and with whole numbers.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "gemm/kernels.h"
#include "gemm/operand_gemm.h"
#include "rlwe/operand_rows.h"
#include "rows_support.h"

namespace cipherblas {
namespace {

using gemm::MatrixView;
using gemm::OperandModuli;
using testing::Batch;
using testing::Limb;
using testing::product_coefficient;

const std::vector<std::uint64_t> kModuli = {255, 253, 251, 247, 241, 239, 233, 229,
                                            227, 223, 217, 211, 199, 197, 193, 191};

std::vector<std::uint64_t> first_moduli(std::size_t count) {
    return {kModuli.begin(), kModuli.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::uint64_t byte_of(const Limb& words, std::size_t size, std::size_t modulus, std::size_t place) {
    return words[modulus / 8 * size + place] >> (8 * (modulus % 8)) & 0xff;
}

// Words of `size` residues modulo all moduli, each from next(modulus, place).
template <typename Next>
Limb make_words(const std::vector<std::uint64_t>& moduli, std::size_t size, const Next& next) {
    Limb words((moduli.size() + 7) / 8 * size);
    for (std::size_t i = 0; i < moduli.size(); ++i) {
        for (std::size_t j = 0; j < size; ++j) words[i / 8 * size + j] |= next(moduli[i], j) << (8 * (i % 8));
    }
    return words;
}

// b + a s modulo every modulus of operands is the message with its error, at the places of the entries.
TEST(OperandRows, Encryption) {
    for (const std::size_t count : {1u, 2u, 8u, 9u, 16u}) {
        const std::vector<std::uint64_t> moduli = first_moduli(count);
        const OperandModuli checked(moduli);
        for (const auto& [width, scale] : {std::pair<std::size_t, double>{1, 0x1p50},
                                           {5, 0x1p50},
                                           {16, 0x1p50},
                                           {64, 0x1p50},
                                           {64, 0.3}}) {
            const std::size_t rows = 3, n = 64;
            const Batch batch(n, rows, width, RowSharing::kSecrets, 1000.0);
            std::mt19937_64 random(width);
            const Limb a = make_words(moduli, rows * n, [&](std::uint64_t modulus, std::size_t place) {
                return place < n ? modulus - 1 : random() % modulus;
            });
            Limb b(checked.words() * rows * width, 7);
            encrypt_operand_rows(batch.context, batch.layout, batch.view(), a.data(), batch.words.data(),
                                 batch.messages(scale), checked, b.data());
            const std::vector<std::int64_t> noise = batch.noise();
            for (std::size_t i = 0; i < moduli.size(); ++i) {
                Modulus m;
                m.q = moduli[i];  // sums and differences take no other constants
                Limb residues(rows * n);
                for (std::size_t j = 0; j < rows * n; ++j) residues[j] = byte_of(a, rows * n, i, j);
                for (std::size_t row = 0; row < rows; ++row) {
                    for (std::size_t j = 0; j < width; ++j) {
                        const std::size_t place = row * width + j;
                        const std::uint64_t phase = product_coefficient(
                            residues.data() + row * n, batch.secrets[0], j * (n / std::bit_ceil(width)), m);
                        const std::uint64_t stored = byte_of(b, rows * width, i, place);
                        ASSERT_LT(stored, m.q);
                        const std::uint64_t found = add_mod(stored, phase, m);
                        const double message = batch.rounded(scale, place);
                        const auto whole = static_cast<std::int64_t>(message) + noise[place];
                        const auto q = static_cast<std::int64_t>(m.q);
                        const auto least = static_cast<std::uint64_t>((whole % q + q) % q);
                        EXPECT_EQ(found, least) << i << ' ' << place;
                    }
                }
            }
        }
    }
}

// Residue i of an integer m with error e is m f_i + e g_i, also for the largest messages.
TEST(OperandRows, EncryptionOfIntegers) {
    const std::vector<std::uint64_t> moduli = first_moduli(9);
    const OperandModuli checked(moduli);
    const std::size_t rows = 3, n = 64, width = 5;
    const Batch batch(n, rows, width, RowSharing::kSecrets, 1000.0);
    std::mt19937_64 random(1);
    const Limb a =
        make_words(moduli, rows * n, [&](std::uint64_t modulus, std::size_t) { return random() % modulus; });
    std::vector<std::int64_t> messages(rows * width), factors, of_errors;
    for (std::int64_t& m : messages) m = static_cast<std::int64_t>(random()) >> 2;
    messages[0] = (std::int64_t{1} << 61) - 1;
    messages[1] = -messages[0];
    for (const std::uint64_t modulus : moduli) {
        factors.push_back(static_cast<std::int64_t>(modulus - 1));
        of_errors.push_back(static_cast<std::int64_t>(random() % modulus));
    }
    Limb b(checked.words() * rows * width, 7);
    encrypt_operand_integers(batch.context, batch.layout, batch.view(), a.data(), batch.words.data(),
                             {messages.data(), factors.data(), of_errors.data()}, checked, b.data());
    const std::vector<std::int64_t> noise = batch.noise();
    for (std::size_t i = 0; i < moduli.size(); ++i) {
        Modulus m;
        m.q = moduli[i];
        const auto q = static_cast<std::int64_t>(m.q);
        Limb residues(rows * n);
        for (std::size_t j = 0; j < rows * n; ++j) residues[j] = byte_of(a, rows * n, i, j);
        for (std::size_t place = 0; place < rows * width; ++place) {
            const std::uint64_t phase =
                product_coefficient(residues.data() + place / width * n, batch.secrets[0],
                                    place % width * (n / std::bit_ceil(width)), m);
            const std::uint64_t found = add_mod(byte_of(b, rows * width, i, place), phase, m);
            const std::int64_t whole = messages[place] % q * factors[i] + noise[place] * of_errors[i];
            EXPECT_EQ(found, static_cast<std::uint64_t>((whole % q + q) % q)) << i << ' ' << place;
        }
    }
}

TEST(OperandRows, UniformResidues) {
    const OperandModuli moduli(first_moduli(11));
    const std::size_t count = 4000;
    std::mt19937_64 generator(3);
    Limb random(2 * count), words(count);
    for (const std::size_t word : {0u, 1u}) {
        for (std::uint64_t& x : random) x = generator();
        random[0] = random[1] = 0;
        random[2] = random[3] = ~std::uint64_t{0};
        uniform_operands(random.data(), count, moduli, word, words.data());
        for (std::size_t i = 0; i < moduli.count_of(word); ++i) {
            const std::uint64_t p = moduli.of_word(word)[i];
            std::vector<int> found(p);
            for (const std::uint64_t x : words) ++found.at(x >> (8 * i) & 0xff);
            const double mean = static_cast<double>(count) / static_cast<double>(p);
            double squares = 0;
            for (const int number : found) squares += (number - mean) * (number - mean) / mean;
            EXPECT_LT(std::abs(squares - static_cast<double>(p - 1)),
                      6 * std::sqrt(2.0 * static_cast<double>(p)));
            EXPECT_EQ(words[0] >> (8 * i) & 0xff, 0u);
            EXPECT_EQ(words[1] >> (8 * i) & 0xff, p - 1);
        }
        EXPECT_TRUE(moduli.all_below(word, {words.data(), gemm::Item::kResidue, 40, 100, 100, 1}));
    }
}

TEST(OperandRows, BytesAreChecked) {
    const OperandModuli moduli(first_moduli(11));
    for (const std::size_t word : {0u, 1u}) {
        for (std::size_t i = 0; i < 8; ++i) {
            const bool used = i < moduli.count_of(word);
            const std::uint64_t least = used ? moduli.of_word(word)[i] : 1;
            for (const std::size_t place : {0u, 7u, 14u}) {
                std::vector<std::uint64_t> words(15, 0);
                words[place] = (least - 1) << (8 * i);
                const auto good = [&] {
                    return moduli.all_below(word, {words.data(), gemm::Item::kResidue, 3, 5, 5, 1}) &&
                           moduli.all_below(word, {words.data(), gemm::Item::kResidue, 5, 3, 1, 5});
                };
                EXPECT_TRUE(good());
                for (const std::uint64_t x : {least, std::uint64_t{255}}) {
                    words[place] = x << (8 * i);
                    EXPECT_FALSE(good()) << word << ' ' << i << ' ' << x;
                }
            }
        }
    }
}

// x y Q / W modulo Q for whole numbers of a few residues, all paths of memory: compared with the fraction that each
// modulus adds, in 128 bits.
void expect_product(const Context& context, const std::vector<std::uint64_t>& moduli, std::size_t m,
                    std::size_t k, std::size_t n, bool largest) {
    std::mt19937_64 random(m + k + n);
    const auto next = [&](std::uint64_t p, std::size_t) { return largest ? p - 1 : random() % p; };
    const Limb x = make_words(moduli, k * m, next), y = make_words(moduli, k * n, next);
    const OperandModuli checked(moduli);
    std::vector<MatrixView> left, right;
    for (std::size_t w = 0; w < checked.words(); ++w) {  // the left one lies by columns
        left.push_back({x.data() + w * k * m, gemm::Item::kResidue, m, k, 1, static_cast<std::ptrdiff_t>(m)});
        right.push_back(
            {y.data() + w * k * n, gemm::Item::kResidue, k, n, static_cast<std::ptrdiff_t>(n), 1});
    }
    for (int limbs = 1; limbs <= context.num_q() && limbs <= 2; ++limbs) {
        Limb out(static_cast<std::size_t>(limbs) * m * n, 5);
        multiply_operands(context, left, right, checked, limbs, out.data());
        const std::vector<gemm::OperandModulus> weights = checked.weights(static_cast<std::size_t>(limbs));
        for (std::size_t i = 0; i < m; ++i) {
            for (std::size_t j = 0; j < n; ++j) {
                long double share = 0;  // of W, in the last bits of which there is no more than rounding
                for (std::size_t l = 0; l < moduli.size(); ++l) {
                    std::uint64_t sum = 0;
                    for (std::size_t p = 0; p < k; ++p) {
                        sum += byte_of(x, k * m, l, p * m + i) * byte_of(y, k * n, l, p * n + j);
                    }
                    std::uint64_t rest = 1;
                    for (const std::uint64_t other : moduli)
                        rest = other == moduli[l] ? rest : rest * other % moduli[l];
                    std::uint64_t inverse = 1;
                    while (inverse * rest % moduli[l] != 1) ++inverse;
                    share += static_cast<long double>(sum % moduli[l] * inverse % moduli[l]) /
                             static_cast<long double>(moduli[l]);
                }
                share -= std::floor(share);
                if (limbs == 1) {
                    const auto q = static_cast<long double>(context.modulus(0).q);
                    const long double got = out[i * n + j];
                    const long double off = got - share * q;
                    EXPECT_LT(std::abs(off - q * std::round(off / q)), 0.57L) << m << k << n;
                    continue;
                }
                // Both limbs of one number: it is the fraction, times Q, to within what a long double holds.
                const Modulus &m0 = context.modulus(0), &m1 = context.modulus(1);
                const std::uint64_t r0 = out[i * n + j], r1 = out[m * n + i * n + j];
                const std::uint64_t difference = sub_mod(r1, r0 % m1.q, m1);
                const std::uint64_t high = mul_mod(difference, inv_mod(m0.q % m1.q, m1), m1);
                const u128 whole = static_cast<u128>(high) * m0.q + r0;
                const long double q = static_cast<long double>(m0.q) * static_cast<long double>(m1.q);
                const long double off = static_cast<long double>(whole) / q - share;
                EXPECT_LT(std::abs(off - std::round(off)), 0x1p-58L) << m << k << n;
            }
        }
    }
}

TEST(OperandRows, ProductsAreSwitched) {
    const std::vector<std::uint64_t> primes = {primes_below(64, 50, 1)[0], primes_below(64, 33, 1)[0]};
    const Context context(64, primes, {}, 1);
    const Context small(64, primes_below(64, 20, 1), {}, 1);
    for (const std::size_t count : {1u, 3u, 8u, 9u, 16u}) {
        for (const bool largest : {false, true}) {
            const std::vector<std::uint64_t> moduli = first_moduli(count);
            expect_product(context, moduli, 1, 1, 1, largest);
            expect_product(context, moduli, 13, 29, 50, largest);
            expect_product(context, moduli, 30, 4, 33, largest);
            expect_product(context, moduli, 3, 4097, 5, largest);
            expect_product(small, moduli, 25, 40, 9, largest);
        }
    }
    const std::vector<std::uint64_t> moduli = first_moduli(9);
    expect_product(context, moduli, 485, 5, 3, false);
    expect_product(context, moduli, 3, 5, 2050, false);
}

// The symmetric product, in halves, is that of the transpose and itself.
TEST(OperandRows, Gram) {
    const Context context(64, primes_below(64, 40, 2), {}, 1);
    const std::vector<std::uint64_t> moduli = first_moduli(9);
    const OperandModuli checked(moduli);
    const std::size_t k = 17, n = 23;
    std::mt19937_64 random(1);
    const Limb x = make_words(moduli, k * n, [&](std::uint64_t p, std::size_t) { return random() % p; });
    std::vector<MatrixView> left, right;
    for (std::size_t w = 0; w < checked.words(); ++w) {
        left.push_back({x.data() + w * k * n, gemm::Item::kResidue, n, k, 1, static_cast<std::ptrdiff_t>(n)});
        right.push_back(
            {x.data() + w * k * n, gemm::Item::kResidue, k, n, static_cast<std::ptrdiff_t>(n), 1});
    }
    for (const int limbs : {1, 2}) {
        Limb want(static_cast<std::size_t>(limbs) * n * n), found(want.size());
        multiply_operands(context, left, right, checked, limbs, want.data());
        for (const std::size_t least : {1u, 6u, 23u}) {
            gram_operands(context, right, checked, limbs, least, found.data());
            EXPECT_EQ(found, want) << least;
        }
    }
}

TEST(OperandRows, ModuliAreChecked) {
    std::vector<std::uint64_t> many = kModuli;
    many.push_back(181);
    for (const std::vector<std::uint64_t>& moduli :
         {std::vector<std::uint64_t>{}, {254}, {257}, {127}, {128}, {1}, {255, 153}, many}) {
        EXPECT_THROW(OperandModuli{moduli}, std::invalid_argument);
    }
    const Context context(64, primes_below(64, 33, 3), {}, 1);
    const std::uint64_t word = 0;
    const std::vector<MatrixView> one = {{&word, gemm::Item::kResidue, 1, 1, 1, 1}};
    std::uint64_t out[3];
    for (const int limbs : {0, 3}) {
        EXPECT_THROW(multiply_operands(context, one, one, OperandModuli({255}), limbs, out),
                     std::invalid_argument);
    }
}

}  // namespace
}  // namespace cipherblas
