// Batches of rows, and schoolbook products, for the tests of matrices in coefficient form.
#pragma once
#include <bit>
#include <random>
#include <vector>

#include "arith/primes.h"
#include "ring/samplers.h"
#include "ring_support.h"
#include "rlwe/coefficient_rows.h"
#include "rlwe/encryption.h"

namespace cipherblas::testing {

inline constexpr int kLimbs = 2;

// The coefficient of X^k in a s modulo X^n + 1.
inline std::uint64_t product_coefficient(const std::uint64_t* a, const AlignedVector<std::int64_t>& s,
                                         std::size_t k, const Modulus& m) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < s.size(); ++i) {
        const std::size_t j = (k + s.size() - i) % s.size();
        const std::int64_t factor = i > k ? -s[i] : s[i];
        if (factor == 1) sum = add_mod(sum, a[j], m);
        if (factor == -1) sum = sub_mod(sum, a[j], m);
    }
    return sum;
}

struct Batch {
    Context context;
    RowLayout layout;
    std::vector<AlignedVector<std::int64_t>> secrets;
    Limb secrets_ntt, a, words;
    std::vector<double> matrix;
    std::uint64_t dither = 0;

    Batch(std::size_t n, std::size_t rows, std::size_t width, RowSharing sharing, double largest)
        : context(n, primes_below(n, 50, kLimbs), {}, 1), layout{n, rows, width, sharing} {
        std::mt19937_64 random(n * 1000 + width);
        const std::size_t count = layout.secrets(), limbs = kLimbs;
        const int positions[] = {0, 1};
        secrets_ntt = Limb(count * limbs * n);
        for (std::size_t i = 0; i < count; ++i) {
            secrets.emplace_back(n);
            for (std::int64_t& x : secrets.back()) x = static_cast<std::int64_t>(random() % 3) - 1;
            encode_residues(context, secrets.back().data(), positions, kLimbs, false,
                            secrets_ntt.data() + i * limbs * n);
        }
        for (int limb = 0; limb < kLimbs; ++limb) {
            const Limb part = make_limb(layout.a_rows() * n, context.modulus(limb).q, random);
            a.insert(a.end(), part.begin(), part.end());
        }
        words = make_limb(rows * width, ~std::uint64_t{0}, random);
        std::uniform_real_distribution<double> entries(-largest, largest);
        matrix.resize(rows * width);
        for (double& x : matrix) x = entries(random);
        dither = random();
    }
    RowMessages messages(double scale) const { return {matrix.data(), scale, dither}; }
    // Entry i of scale * matrix, rounded by a chance that depends on the dither and the number of the entry alone.
    double rounded(double scale, std::size_t i) const {
        return round_by_chance(scale * matrix[i], dither + i * 0x9e3779b97f4a7c15u);
    }
    SecretsView view() const {
        return {secrets_ntt.data(), static_cast<std::ptrdiff_t>(kLimbs * layout.n),
                static_cast<std::ptrdiff_t>(layout.n)};
    }
    // Entry (row, column) of a s, modulo a prime.
    std::uint64_t phase(int limb, std::size_t row, std::size_t column) const {
        const std::size_t segment = column / layout.n, place = column % layout.n;
        const std::size_t count = std::min(layout.n, layout.width - segment * layout.n);
        const bool per_row = layout.sharing == RowSharing::kSecrets;
        const std::uint64_t* const mask =
            a.data() +
            (static_cast<std::size_t>(limb) * layout.a_rows() + (per_row ? row : segment)) * layout.n;
        return product_coefficient(mask, secrets[per_row ? segment : row],
                                   place * (layout.n / std::bit_ceil(count)), context.modulus(limb));
    }
    std::vector<std::int64_t> noise() const {
        std::vector<std::int64_t> result(words.size());
        sample_gaussian(result.data(), words.data(), words.size());
        return result;
    }
};

}  // namespace cipherblas::testing
