// Division with rounding by dropped primes, against integers.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "arith/primes.h"
#include "ring_support.h"
#include "rlwe/mod_down.h"

namespace cipherblas {
namespace {

using i128 = __int128;
using testing::Limb;

std::uint64_t residue(i128 x, const Modulus& m) {
    const i128 q = static_cast<i128>(m.q);
    return static_cast<std::uint64_t>((x % q + q) % q);
}

// Rows of D y + e with |e| <= D / 2 become y.
void expect_quotients(int log_n, int bits, int kept, int dropped, int rows, bool in_place) {
    const std::size_t n = std::size_t{1} << log_n;
    const int limbs = kept + dropped;
    std::vector<std::uint64_t> primes = primes_below(n, bits, limbs + 1);
    const Context context(n, {primes.begin(), primes.end() - 1}, {primes.back()}, 1);
    const BaseConversion& conversion = context.conversion(kept, dropped, false);
    i128 divisor = 1;
    for (int i = 0; i < dropped; ++i) divisor *= static_cast<i128>(context.modulus(kept + i).q);

    std::mt19937_64 random(static_cast<std::uint64_t>(log_n * 1000 + bits * 10 + dropped));
    std::vector<std::int64_t> quotients(static_cast<std::size_t>(rows) * n);
    std::vector<Limb> x;  // [row][limb]
    std::vector<i128> values(n);
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
        for (std::size_t j = 0; j < n; ++j) {
            const std::int64_t y = static_cast<std::int64_t>(random() >> 44) - (1 << 19);
            const i128 bound = (divisor - 1) / 2 - divisor / (1 << 20);  // several primes: off the ties
            i128 e =
                (static_cast<i128>(random() >> 2) << 62 | static_cast<i128>(random() >> 2)) % (2 * bound + 1);
            e -= bound;
            if (dropped == 1 && j < 2) e = (j == 0 ? 1 : -1) * (divisor - 1) / 2;
            quotients[row * n + j] = y;
            values[j] = divisor * y + e;
        }
        for (int i = 0; i < limbs; ++i) {
            Limb limb(n);
            for (std::size_t j = 0; j < n; ++j) limb[j] = residue(values[j], context.modulus(i));
            kernels().ntt(limb.data(), context.table(i));
            x.push_back(limb);
        }
    }
    std::vector<Limb> results(static_cast<std::size_t>(rows * kept), Limb(n));
    std::vector<const std::uint64_t*> dropped_limbs, kept_limbs;
    std::vector<std::uint64_t*> out;
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
        for (int i = 0; i < limbs; ++i) {
            Limb& limb = x[row * static_cast<std::size_t>(limbs) + static_cast<std::size_t>(i)];
            if (i >= kept) {
                dropped_limbs.push_back(limb.data());
                continue;
            }
            kept_limbs.push_back(limb.data());
            out.push_back(in_place ? limb.data() : results[out.size()].data());
        }
    }
    mod_down(context, conversion, rows, kept, dropped_limbs.data(), kept_limbs.data(), out.data());
    for (std::size_t place = 0; place < out.size(); ++place) {
        const std::size_t row = place / static_cast<std::size_t>(kept);
        const int limb = static_cast<int>(place) % kept;
        kernels().intt(out[place], context.table(limb));
        for (std::size_t j = 0; j < n; ++j) {
            ASSERT_EQ(out[place][j], residue(quotients[row * n + j], context.modulus(limb)))
                << "n " << n << " bits " << bits << " dropped " << dropped << " row " << row << " limb "
                << limb << " at " << j;
        }
    }
}

TEST(ModDown, DividesAndRounds) {
    for (const int log_n : {3, 6, 10, 13, 15}) {
        for (const int bits : {39, 46, 48, 50}) {
            for (const int dropped : {1, 2}) {
                expect_quotients(log_n, bits, 3, dropped, dropped + 1, log_n % 2 == 0);
            }
        }
        expect_quotients(log_n, 36, 2, 3, 2, false);
    }
}

TEST(ModDown, DividesLargeRings) {
    expect_quotients(16, 46, 9, 1, 2, false);  // past the caches
    expect_quotients(16, 48, 2, 1, 3, true);
    expect_quotients(16, 50, 2, 1, 2, false);
    expect_quotients(16, 40, 2, 2, 2, false);
    for (const int bits : {46, 48, 50}) expect_quotients(17, bits, 1, 1, 2, bits == 46);
}

}  // namespace
}  // namespace cipherblas
