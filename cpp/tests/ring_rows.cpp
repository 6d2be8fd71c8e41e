// Butterflies and transforms of rows with monomial twiddles, against direct sums.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "ring/pool.h"
#include "ring/row_transform.h"
#include "ring/threads.h"
#include "ring_support.h"

namespace cipherblas {
namespace {

using testing::Limb;
using testing::make_limb;

// sum += X^shift x modulo X^n + 1, words modulo 2^64.
void add_shifted(Limb& sum, const Limb& x, std::size_t shift) {
    const std::size_t n = x.size();
    for (std::size_t i = 0; i < n; ++i) {
        const std::size_t place = (i + shift) % (2 * n);
        sum[place % n] += place < n ? x[i] : 0 - x[i];
    }
}

struct Rows {
    std::vector<Limb> rows;
    std::vector<std::uint64_t*> pointers;
    std::vector<const std::uint64_t*> constant;

    explicit Rows(std::vector<Limb> given) : rows(std::move(given)) {
        for (Limb& row : rows) pointers.push_back(row.data());
        constant.assign(pointers.begin(), pointers.end());
    }
};

Rows random_rows(std::size_t count, std::size_t n, std::mt19937_64& random) {
    std::vector<Limb> rows;
    for (std::size_t i = 0; i < count; ++i) rows.push_back(make_limb(n, ~std::uint64_t{0}, random));
    return Rows(std::move(rows));
}

// What the butterfly evaluates: out_t = sum_r X^(r t turn + s_r) in_r, with t taken in bit-reversed order.
std::vector<Limb> direct_butterfly(const Rows& in, const std::size_t* shift, std::size_t n) {
    const std::size_t radix = in.rows.size();
    std::vector<Limb> out(radix, Limb(n));
    for (std::size_t place = 0; place < radix; ++place) {
        const std::size_t t = radix == 2 ? place : (place & 1) * 2 + place / 2;
        for (std::size_t r = 0; r < radix; ++r) {
            const std::size_t turn = r * t % radix * (2 * n / radix);
            add_shifted(out[place], in.rows[r], turn + (r == 0 ? 0 : shift[r - 1]));
        }
    }
    return out;
}

TEST(RowButterfly, IsTheDirectSumAndItsInverse) {
    std::mt19937_64 random(1);
    for (const std::size_t radix : {2u, 4u}) {
        for (std::size_t n = 8; n <= 512; n *= 4) {
            for (int repeat = 0; repeat < 60; ++repeat) {
                std::size_t shift[3];
                for (std::size_t& s : shift) s = repeat == 0 ? 0 : repeat == 1 ? n / 2 : random() % (2 * n);
                const Rows in = random_rows(radix, n, random);
                Rows out = random_rows(radix, n, random);
                Rows back = random_rows(radix, n, random);
                kernels().row_butterfly(out.pointers.data(), in.constant.data(), shift,
                                        static_cast<int>(radix), false, n);
                ASSERT_EQ(out.rows, direct_butterfly(in, shift, n)) << "n " << n << " radix " << radix;
                kernels().row_butterfly(back.pointers.data(), out.constant.data(), shift,
                                        static_cast<int>(radix), true, n);
                for (std::size_t r = 0; r < radix; ++r) {
                    for (std::size_t i = 0; i < n; ++i) {
                        ASSERT_EQ(back.rows[r][i], radix * in.rows[r][i]) << "n " << n << " row " << r;
                    }
                }
            }
        }
    }
}

std::uint64_t residue(std::uint64_t word, const Modulus& m) {
    const std::int64_t q = static_cast<std::int64_t>(m.q);
    const std::int64_t r = static_cast<std::int64_t>(word) % q;
    return static_cast<std::uint64_t>(r < 0 ? r + q : r);
}

// sum_i Y^(sign u(p) i) in_i for one p, or, for the inverse, sum_p over the positions.
Limb direct_row(const Limb& in, std::size_t n, int log_rows, std::size_t row, bool inverse,
                const Modulus& m) {
    const std::size_t rows = std::size_t{1} << log_rows;
    Limb sum(n);
    for (std::size_t other = 0; other < in.size() / n; ++other) {
        const std::uint64_t u = row_exponent(inverse ? other : row, log_rows);
        const std::uint64_t e = u * (inverse ? row : other) % (2 * rows);
        const std::size_t shift = (inverse ? 2 * rows - e : e) * (n / rows);
        const std::uint64_t* const x = in.data() + other * n;
        for (std::size_t i = 0; i < n; ++i) {
            const std::size_t place = (i + shift) & (2 * n - 1);
            std::uint64_t& to = sum.data()[place & (n - 1)];
            to = place < n ? add_mod(to, x[i], m) : sub_mod(to, x[i], m);
        }
    }
    return sum;
}

// Of every `step`-th row from `first` on: all of them are known after as many calls as there are to a step.
void expect_direct_sums(std::size_t n, int log_rows, std::size_t present, const Modulus& m, std::size_t first,
                        std::size_t step, std::mt19937_64& random) {
    const std::size_t rows = std::size_t{1} << log_rows;
    for (const bool inverse : {false, true}) {
        for (const bool in_place : {false, true}) {
            const std::size_t given = in_place || inverse ? rows : present;
            const Limb in = make_limb(given * n, m.q, random, testing::Fill::kExtremes);
            Limb out = in_place ? in : make_limb(rows * n, m.q, random);
            const RowArray array{
                in_place ? out.data() : in.data(), given, static_cast<std::ptrdiff_t>(n), out.data(), n, &m};
            transform_rows({&array, 1}, log_rows, inverse, in_place);
            for (std::size_t row = first; row < rows; row += step) {
                const Limb expected = direct_row(in, n, log_rows, row, inverse, m);
                for (std::size_t i = 0; i < n; ++i) {
                    const std::uint64_t word = out[row * n + i];
                    ASSERT_EQ(in_place ? word : residue(word, m), expected[i])
                        << "n " << n << " rows " << rows << " inverse " << inverse << " row " << row;
                }
            }
        }
    }
}

TEST(RowTransform, IsTheDirectSumOnAnyNumberOfThreads) {
    std::mt19937_64 random(2);
    const int threads = thread_count();
    for (int log_rows = 3; log_rows <= 7; ++log_rows) {
        for (const std::size_t ratio : {1u, 2u, 4u}) {
            const std::size_t n = ratio << log_rows;
            const std::size_t rows = std::size_t{1} << log_rows;
            set_thread_count(1 + log_rows % 3);
            const std::vector<Modulus> moduli = testing::test_moduli(std::countr_zero(n));
            const std::size_t step = log_rows < 6 ? 1 : 4;  // a sum takes as many products as there are words
            ASSERT_GE(moduli.size(), step);
            for (std::size_t i = 0; i < moduli.size(); ++i) {
                expect_direct_sums(n, log_rows, ratio == 1 ? rows : rows / 2 + 1, moduli[i], i % step, step,
                                   random);
            }
        }
    }
    set_thread_count(threads);
}

// As many rows and as large words as there can be without reductions: half a gigabyte, of which a sixteenth does where programs are watched.
TEST(RowTransform, NoWordOverflows) {
    const int log_rows = testing::kWatched ? kUnreducedLayers - 2 : kUnreducedLayers;
    const std::size_t n = std::size_t{1} << log_rows;
    const Modulus m(primes_below(n, kMaxModulusBits, 1)[0]);
    const Limb ones(n, m.q - 1);
    const Buffer out = Buffer::of_words(n, n);
    const RowArray array{ones.data(), n, 0, out.words(), n, &m};
    transform_rows({&array, 1}, log_rows, false, true);
    for (const std::size_t row : {std::size_t{0}, n / 3, n - 1}) {
        const std::uint64_t u = row_exponent(row, log_rows);
        // -sum_j X^j sum_i X^(u i): the i-th power has its minus signs below column u i mod 2n, or above. As steps from
        // column to column.
        std::vector<std::int64_t> sums(n);
        for (std::size_t i = 0; i < n; ++i) {
            const std::size_t e = u * i % (2 * n);
            const std::int64_t below = e < n ? 1 : -1;
            sums[0] += below;
            sums[e % n] -= 2 * below;
        }
        std::partial_sum(sums.begin(), sums.end(), sums.begin());
        for (std::size_t j = 0; j < n; ++j) {
            ASSERT_EQ(out.words()[row * n + j], residue(static_cast<std::uint64_t>(sums[j]), m))
                << "row " << row;
        }
    }
}

// With fewer layers between reductions, words stay small and stand for the same residues, in one piece or in two.
TEST(RowTransform, ReducesOnTheWay) {
    std::mt19937_64 random(3);
    const int log_rows = 7;
    const std::size_t n = std::size_t{2} << log_rows, rows = std::size_t{1} << log_rows;
    const Modulus m(primes_below(n, kMaxModulusBits, 1)[0]);
    for (const int unreduced : {kPassLayers, kPassLayers + 1, log_rows}) {
        const Limb in = make_limb(rows * n, m.q, random, testing::Fill::kExtremes);
        for (const bool inverse : {false, true}) {
            Limb whole(rows * n), split = in;
            const RowArray array{in.data(), rows, static_cast<std::ptrdiff_t>(n), whole.data(), n, &m};
            transform_rows({&array, 1}, log_rows, inverse, false, unreduced);
            const RowArray there{split.data(), rows, static_cast<std::ptrdiff_t>(n), split.data(), n, &m};
            const int log_parts = 2;
            const std::size_t blocks[] = {0, 1, 2, 3};
            if (!inverse)
                transform_classes({&there, 1}, log_rows, log_parts, 0, rows >> log_parts, false, unreduced);
            transform_blocks({&there, 1}, log_rows, log_parts, blocks, inverse, unreduced);
            if (inverse)
                transform_classes({&there, 1}, log_rows, log_parts, 0, rows >> log_parts, true, unreduced);
            const std::int64_t most = static_cast<std::int64_t>(m.q) << unreduced;
            for (std::size_t row : {std::size_t{0}, rows / 3, rows - 1}) {
                const Limb expected = direct_row(in, n, log_rows, row, inverse, m);
                for (std::size_t i = 0; i < n; ++i) {
                    ASSERT_LE(std::abs(static_cast<std::int64_t>(whole[row * n + i])), most);
                    ASSERT_EQ(residue(whole[row * n + i], m), expected[i]) << "unreduced " << unreduced;
                    ASSERT_EQ(residue(split[row * n + i], m), expected[i]) << "unreduced " << unreduced;
                }
            }
        }
    }
}

TEST(RowTransform, PositionsAndExponentsAreInverse) {
    for (int log_rows = 3; log_rows <= 10; ++log_rows) {
        for (std::size_t p = 0; p < (std::size_t{1} << log_rows); ++p) {
            EXPECT_EQ(row_position(row_exponent(p, log_rows), log_rows), p);
        }
    }
}

}  // namespace
}  // namespace cipherblas
