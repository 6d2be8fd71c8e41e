// Key switching end to end: decryption of rotations, linear transforms and relinearised products.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>

#include "arith/primes.h"
#include "ckks/arithmetic.h"
#include "ring/kernels.h"
#include "ring/samplers.h"
#include "ring/threads.h"
#include "rlwe/encryption.h"
#include "rlwe/transform.h"

namespace cipherblas {
namespace {

using Words = AlignedVector<std::uint64_t>;
using Coefficients = AlignedVector<std::int64_t>;

// INSECURE toy ring with fixed randomness.
class Toy {
  public:
    // special_bits: of the special primes; the others have one less. Keys are packed accordingly.
    Toy(std::size_t n, int q_limbs, int special, int alpha, int special_bits = 50)
        : context(make(n, q_limbs, special, alpha, special_bits)) {
        Coefficients ternary(n);
        for (auto& x : ternary) x = static_cast<std::int64_t>(random() % 3) - 1;
        secret = residues(ternary, all());
    }

    std::vector<int> all() const {
        std::vector<int> limbs;
        for (int i = 0; i < context.basis().size(); ++i) limbs.push_back(i);
        return limbs;
    }
    std::size_t rows(int limbs) const { return static_cast<std::size_t>(limbs + context.num_p()); }

    Words residues(const Coefficients& x, const std::vector<int>& limbs) const {
        Words out(limbs.size() * context.n());
        encode_residues(context, x.data(), limbs.data(), static_cast<int>(limbs.size()), false, out.data());
        return out;
    }
    PolynomialView view(const Words& x) const { return {x.data(), static_cast<std::ptrdiff_t>(context.n())}; }
    CiphertextView view(const Words& x, int components, int limbs) const {
        const std::ptrdiff_t n = static_cast<std::ptrdiff_t>(context.n());
        return {x.data(), components, limbs, limbs * n, n};
    }
    SwitchingKeyView key_view(const Words& key, int limbs) const { return {context, key.data(), limbs}; }

    Coefficients message() {
        Coefficients m(context.n());
        for (auto& x : m) x = static_cast<std::int64_t>(random() % (1u << 20)) - (1 << 19);
        return m;
    }
    Coefficients noise(std::size_t count) {
        Words words(count);
        for (auto& word : words) word = random();
        Coefficients out(count);
        sample_gaussian(out.data(), words.data(), count);
        return out;
    }
    void uniform(std::uint64_t* out, int limb) {
        for (std::size_t i = 0; i < context.n(); ++i) out[i] = random() % context.modulus(limb).q;
    }

    // scale * m, so that the noise of everything below stays far under half a unit of m.
    Words encrypt(const Coefficients& m, int limbs, std::int64_t scale) {
        const std::size_t n = context.n();
        Coefficients scaled(n);
        for (std::size_t i = 0; i < n; ++i) scaled[i] = m[i] * scale;
        Words out(2 * static_cast<std::size_t>(limbs) * n);
        std::uint64_t* const a = out.data() + static_cast<std::size_t>(limbs) * n;
        for (int i = 0; i < limbs; ++i) uniform(a + static_cast<std::size_t>(i) * n, i);
        encrypt_symmetric(context, view(secret), {a, static_cast<std::ptrdiff_t>(n)}, noise(n).data(),
                          {scaled.data(), nullptr}, limbs, out.data());
        return out;
    }
    Words key(const Words& source, int limbs) {
        const std::size_t n = context.n();
        const std::size_t digits = static_cast<std::size_t>(context.digits(limbs));
        Words a(digits * rows(limbs) * n), out(2 * a.size());
        for (std::size_t row = 0; row < digits * rows(limbs); ++row) {
            const int i = static_cast<int>(row % rows(limbs));
            uniform(a.data() + row * n, i < limbs ? i : context.num_q() + i - limbs);
        }
        make_switching_key(context, view(secret), view(source), a.data(), noise(digits * n).data(), limbs,
                           out.data());
        return out;
    }
    Words galois_key(std::uint64_t galois, int limbs) {
        Words source(secret.size());
        const auto permutation = context.basis().permutation(galois);
        for (std::size_t row = 0; row < rows(context.num_q()); ++row) {
            kernels().permute(&source[row * context.n()], &secret[row * context.n()], *permutation,
                              context.n());
        }
        return key(source, limbs);
    }
    void expect_decrypts(const Words& ciphertext, int components, int limbs, double scale,
                         const std::vector<double>& expected) const {
        std::vector<double> got(context.n());
        decrypt_coefficients(context, view(secret), view(ciphertext, components, limbs), got.data());
        for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i] / scale, expected[i], 0.45) << i;
    }

    std::mt19937_64 random{7};
    Context context;
    Words secret;

  private:
    static Context make(std::size_t n, int q_limbs, int special, int alpha, int special_bits) {
        const std::vector<std::uint64_t> p = primes_below(n, special_bits, special);
        return Context(n, primes_below(n, special_bits - 1, q_limbs, p), p, alpha);
    }
};

template <typename T>
std::vector<double> rotated(const std::vector<T, AlignedAllocator<T>>& m, std::uint64_t galois) {
    const std::size_t n = m.size();
    std::vector<double> out(n);
    for (std::size_t i = 0; i < n; ++i) {
        const std::size_t power = i * galois % (2 * n);
        out[power % n] = static_cast<double>(power < n ? m[i] : -m[i]);
    }
    return out;
}

struct Case {
    int limbs, key_limbs, special, alpha, special_bits = 50;
};

class Rotations : public ::testing::TestWithParam<Case> {};
class Transforms : public ::testing::TestWithParam<Case> {};  // with a limb to spare

TEST_P(Rotations, DecryptInBothOrders) {
    const Case c = GetParam();
    Toy toy(64, 5, c.special, c.alpha, c.special_bits);
    const std::size_t n = toy.context.n();
    const Coefficients m = toy.message();
    const std::int64_t scale = std::int64_t{1} << 20;
    const Words x = toy.encrypt(m, c.limbs, scale);
    const std::vector<std::uint64_t> elements = {5, 2 * n - 1, 1, 77};
    std::vector<Words> keys;
    Transform transform;
    transform.limbs = c.limbs;
    transform.outputs = static_cast<int>(elements.size());
    transform.sources = {toy.view(x, 2, c.limbs)};
    for (std::size_t o = 0; o < elements.size(); ++o)
        keys.push_back(toy.galois_key(elements[o], c.key_limbs));
    for (std::size_t o = 0; o < elements.size(); ++o) {
        transform.keys.push_back(toy.key_view(keys[o], c.key_limbs));
        transform.terms.push_back({static_cast<int>(o), 0, elements[o], static_cast<int>(o), -1});
    }
    std::vector<Words> results[2];
    for (int order = 0; order < 2; ++order) {
        std::vector<std::uint64_t*> out;
        results[order].assign(elements.size(), Words(x.size()));
        for (Words& words : results[order]) out.push_back(words.data());
        run_transform(toy.context, transform, order == 0 ? TransformOrder::kLimb : TransformOrder::kRotation,
                      out.data());
    }
    EXPECT_EQ(results[0], results[1]);
    for (std::size_t o = 0; o < elements.size(); ++o) {
        toy.expect_decrypts(results[0][o], 2, c.limbs, static_cast<double>(scale), rotated(m, elements[o]));
    }
}

TEST_P(Transforms, MaskedSumsDecryptInBothOrdersAndOnAnyNumberOfThreads) {
    const Case c = GetParam();
    Toy toy(64, 5, c.special, c.alpha, c.special_bits);
    const std::size_t n = toy.context.n();
    const Coefficients m = toy.message();
    const std::int64_t scale = std::int64_t{1} << 20;
    const Words x = toy.encrypt(m, c.limbs, scale);
    // Monomial masks q_last X^j: the rescaled result is a signed shift of the rotated message.
    const std::int64_t last = static_cast<std::int64_t>(toy.context.modulus(c.limbs - 1).q);
    constexpr int kTerms = 19;
    std::vector<Coefficients> masks(kTerms, Coefficients(n));
    const Words key = toy.galois_key(5, c.key_limbs);
    Transform transform;
    transform.limbs = c.limbs;
    transform.outputs = 3;  // the last one without a term
    transform.rescale = true;
    transform.sources = {toy.view(x, 2, c.limbs)};
    transform.keys = {toy.key_view(key, c.key_limbs)};
    std::vector<std::vector<double>> expected(3, std::vector<double>(n));
    for (int t = 0; t < kTerms; ++t) {
        const std::size_t shift = static_cast<std::size_t>(3 * t) % n;
        masks[static_cast<std::size_t>(t)][shift] = last;
        transform.plaintexts.push_back({masks[static_cast<std::size_t>(t)].data(), nullptr, 0});
        transform.terms.push_back({t % 2, 0, t % 3 == 0 ? std::uint64_t{1} : 5, t % 3 == 0 ? -1 : 0, t});
        const std::vector<double> turned = rotated(m, t % 3 == 0 ? 1 : 5);
        for (std::size_t i = 0; i < n; ++i) {
            const std::size_t place = i + shift;
            expected[static_cast<std::size_t>(t % 2)][place % n] += place < n ? turned[i] : -turned[i];
        }
    }
    const int before = thread_count();
    std::vector<std::vector<Words>> results;
    for (const int threads : {1, 3}) {
        for (const TransformOrder order : {TransformOrder::kLimb, TransformOrder::kRotation}) {
            set_thread_count(threads);
            results.emplace_back(3, Words(2 * static_cast<std::size_t>(c.limbs - 1) * n, 1));
            std::vector<std::uint64_t*> out;
            for (Words& words : results.back()) out.push_back(words.data());
            run_transform(toy.context, transform, order, out.data());
        }
    }
    set_thread_count(before);
    for (const auto& result : results) EXPECT_EQ(result, results[0]);
    for (std::size_t o = 0; o < 3; ++o) {
        toy.expect_decrypts(results[0][o], 2, c.limbs - 1, static_cast<double>(scale), expected[o]);
    }
}

TEST_P(Transforms, ProductsDecryptBeforeAndAfterRelinearisation) {
    const Case c = GetParam();
    Toy toy(64, 5, c.special, c.alpha, c.special_bits);
    const std::size_t n = toy.context.n();
    Coefficients m(n), monomial(n);
    for (auto& value : m) value = static_cast<std::int64_t>(toy.random() % 200) - 100;
    monomial[3] = 1;
    const std::int64_t scale = std::int64_t{1} << 30;
    const Words x = toy.encrypt(m, c.limbs, scale);
    const Words y = toy.encrypt(monomial, c.limbs, scale);
    std::vector<double> expected(n);
    for (std::size_t i = 0; i < n; ++i) {
        expected[(i + 3) % n] = static_cast<double>(i + 3 < n ? m[i] : -m[i]);
    }
    Words product(3 * static_cast<std::size_t>(c.limbs) * n),
        result(2 * static_cast<std::size_t>(c.limbs) * n);
    multiply_sum(toy.context, {toy.view(x, 2, c.limbs)}, {toy.view(y, 2, c.limbs)}, false,
                 {product.data(), 3, c.limbs, n});
    const double product_scale = std::ldexp(1.0, 60);
    toy.expect_decrypts(product, 3, c.limbs, product_scale, expected);
    Words square(toy.secret.size());
    for (int i = 0; i < toy.context.basis().size(); ++i) {
        const std::size_t offset = static_cast<std::size_t>(i) * n;
        kernels().mul(&square[offset], &toy.secret[offset], &toy.secret[offset], n, toy.context.modulus(i));
    }
    const Words key = toy.key(square, c.key_limbs);
    relinearise(toy.context, toy.view(product, 3, c.limbs), toy.key_view(key, c.key_limbs), false,
                result.data());
    toy.expect_decrypts(result, 2, c.limbs, product_scale, expected);
}

const auto kLevels =
    ::testing::Values(Case{5, 5, 1, 1}, Case{3, 5, 1, 1}, Case{5, 5, 2, 2}, Case{4, 5, 2, 2},
                      Case{3, 4, 2, 2}, Case{5, 5, 3, 3}, Case{2, 5, 5, 5}, Case{3, 5, 1, 1, 48},
                      Case{5, 5, 2, 2, 48}, Case{5, 5, 2, 2, 41}, Case{5, 5, 2, 2, 33}, Case{5, 5, 2, 2, 32});
INSTANTIATE_TEST_SUITE_P(Levels, Transforms, kLevels);
INSTANTIATE_TEST_SUITE_P(Levels, Rotations, kLevels);
INSTANTIATE_TEST_SUITE_P(LastLevel, Rotations, ::testing::Values(Case{1, 5, 2, 2}, Case{1, 1, 1, 1}));

TEST(SwitchingKeys, HaveLimbsOfTheSizesOfTheirPrimes) {
    const Toy toy(64, 3, 2, 1, 41);  // special primes of 41 bits, others of 40
    for (int limbs = 1; limbs <= 3; ++limbs) {
        const std::size_t low = static_cast<std::size_t>(limbs) * 40;
        EXPECT_EQ(toy.context.key_words(limbs), low + 2 * 48);
        EXPECT_EQ(toy.context.key_words_before(limbs, limbs - 1), low - 40);
        EXPECT_EQ(toy.context.key_words_before(limbs, 4), low + 48);
    }
    EXPECT_EQ(toy.context.key_bits(2), 40);
    EXPECT_EQ(toy.context.key_bits(3), 48);
}

TEST(TransformErrors, AreRaisedBeforeAnyWork) {
    Toy toy(16, 3, 1, 1);
    const Words x = toy.encrypt(toy.message(), 2, 1);
    const Words key = toy.galois_key(5, 1);
    Transform transform;
    transform.limbs = 2;
    transform.outputs = 1;
    transform.sources = {toy.view(x, 2, 2)};
    transform.keys = {toy.key_view(key, 1)};
    for (const TransformTerm& term :
         {TransformTerm{1, 0, 1, -1, -1}, TransformTerm{0, 1, 1, -1, -1}, TransformTerm{0, 0, 4, 0, -1},
          TransformTerm{0, 0, 5, -1, -1}, TransformTerm{0, 0, 5, 0, -1}, TransformTerm{0, 0, 1, 1, -1},
          TransformTerm{0, 0, 1, -1, 0}, TransformTerm{-1, 0, 1, -1, -1}}) {
        transform.terms = {term};
        EXPECT_THROW(run_transform(toy.context, transform, TransformOrder::kLimb, nullptr),
                     std::invalid_argument);
    }
}

}  // namespace
}  // namespace cipherblas
