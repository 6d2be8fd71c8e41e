// Weighted sums of a list of ciphertexts against arithmetic one word at a time.
#include <gtest/gtest.h>

#include <ostream>
#include <random>
#include <utility>
#include <vector>

#include "arith/primes.h"
#include "ckks/arithmetic.h"
#include "ring/threads.h"

namespace cipherblas {
namespace {

using Words = AlignedVector<std::uint64_t>;

struct Case {
    std::size_t n, width;
    int limbs;
    std::size_t ciphertexts;
    std::vector<std::size_t> terms;  // of every block
};

// For the names of failures: without it GoogleTest prints all bytes, also those between the members.
void PrintTo(const Case& c, std::ostream* out) {
    *out << "N = " << c.n << ", pieces of " << c.width << ", " << c.limbs << " limbs, " << c.ciphertexts
         << " ciphertexts, " << c.terms.size() << " blocks";
}

// Pieces as wide as the ring and narrower; one term, many terms, blocks of different lengths.
const std::vector<Case> kCases = {
    {64, 64, 1, 1, {1}},           {256, 64, 3, 2, {2, 5, 1}}, {1024, 512, 2, 7, {40, 1, 9, 3}},
    {512, 128, 4, 3, {700, 3, 8}}, {1024, 64, 1, 2, {2}},
};

class WeightedSums : public ::testing::TestWithParam<Case> {
  protected:
    // Words modulo each limb in turn, some of them the largest.
    Words random_rows(const Context& context, std::size_t rows, int limbs) {
        Words out(rows * context.n());
        for (std::size_t i = 0; i < out.size(); ++i) {
            const std::size_t row = i / context.n();
            const std::uint64_t q = context.modulus(static_cast<int>(row) % limbs).q;
            out[i] = random_() % 8 == 0 ? q - 1 : random_() % q;
        }
        return out;
    }

    std::mt19937_64 random_{11};
};

TEST_P(WeightedSums, EqualTheScalarReferenceOnAnyNumberOfThreads) {
    const Case& c = GetParam();
    // Factors modulo every second prime have half a word each.
    std::vector<std::uint64_t> primes;
    for (int i = 0; i < c.limbs; ++i) {
        primes.push_back(primes_below(c.n, i % 2 == 0 ? 50 : 32, i + 1).back());
    }
    const Context context(c.n, primes, {}, 1);
    const std::ptrdiff_t n = static_cast<std::ptrdiff_t>(c.n);
    const std::size_t limbs = static_cast<std::size_t>(c.limbs);
    std::vector<Words> ciphertexts;
    std::vector<CiphertextView> views;
    for (std::size_t i = 0; i < c.ciphertexts; ++i) {
        ciphertexts.push_back(random_rows(context, 2 * limbs, c.limbs));
        views.push_back({ciphertexts.back().data(), 2, c.limbs, c.limbs * n, n});
    }
    std::vector<AlignedVector<std::uint32_t>> packed;
    std::vector<Words> outs, expected;
    std::vector<WeightBlock> blocks;
    std::vector<CiphertextSpan> spans;
    for (const std::size_t count : c.terms) {
        AlignedVector<std::uint32_t> block(factor_halves(context, c.limbs, false) * count * c.n);
        Words sum(2 * limbs * c.n);
        std::vector<std::uint32_t> sources;
        for (std::size_t t = 0; t < count; ++t) {
            const Words plain = random_rows(context, limbs, c.limbs);
            sources.push_back(static_cast<std::uint32_t>(random_() % c.ciphertexts));
            const Words& ct = ciphertexts[sources.back()];
            for (std::size_t word = 0; word < limbs * c.n; ++word) {
                const std::size_t i = word / c.n, k = word % c.n;
                const Modulus& m = context.modulus(static_cast<int>(i));
                const std::size_t place = ((k / c.width) * count + t) * c.width + k % c.width;
                write_factor(&block[context.halves_before(static_cast<int>(i)) * c.n * count +
                                    place * halves_of(m.bits)],
                             &plain[word], 1, m.bits);
                for (std::size_t component = 0; component < 2; ++component) {
                    std::uint64_t& total = sum[component * limbs * c.n + word];
                    const std::uint64_t x = ct[component * limbs * c.n + word];
                    total = add_mod(total, mul_mod(montgomery_reduce(plain[word], m), x, m), m);
                }
            }
        }
        packed.push_back(std::move(block));
        expected.push_back(std::move(sum));
        outs.emplace_back(2 * limbs * c.n, ~std::uint64_t{0});  // what was there is overwritten
        blocks.push_back({packed.back().data(), sources});
        spans.push_back({outs.back().data(), 2, c.limbs, c.n});
    }
    for (const int count : {1, 3}) {
        set_thread_count(count);
        weighted_sums(context, blocks, c.width, views, spans);
        for (std::size_t b = 0; b < outs.size(); ++b) EXPECT_EQ(outs[b], expected[b]) << "block " << b;
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, WeightedSums, ::testing::ValuesIn(kCases));

}  // namespace
}  // namespace cipherblas
