// Limbs, moduli and one-line reference arithmetic for the tests of the ring layer.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <random>
#include <span>
#include <vector>

#include "arith/modulus.h"
#include "arith/primes.h"
#include "ring/aligned.h"
#include "ring/kernels.h"
#include "ring/ntt.h"
#include "ring/packing.h"
#include "valgrind.h"

namespace cipherblas::testing {

using Limb = AlignedVector<std::uint64_t>;

enum class Fill { kRandom, kZero, kLargest, kExtremes };
// Where programs are watched, one of them: which memory a kernel reads and writes does not depend on the words.
inline constexpr Fill kAllFills[] = {Fill::kExtremes, Fill::kRandom, Fill::kZero, Fill::kLargest};
inline constexpr std::span<const Fill> kFills(kAllFills, kWatched ? 1 : std::size(kAllFills));

// Words below `bound`: random, all 0, all bound - 1, or a random mixture of 0, 1, bound - 1 and random words.
inline Limb make_limb(std::size_t n, std::uint64_t bound, std::mt19937_64& random,
                      Fill fill = Fill::kRandom) {
    if (fill == Fill::kZero || fill == Fill::kLargest) return Limb(n, fill == Fill::kZero ? 0 : bound - 1);
    const std::uint64_t extremes[] = {0, 1 % bound, bound - 1};
    Limb limb(n);
    for (std::uint64_t& x : limb) {
        const std::uint64_t word = random();
        const std::uint64_t choice = fill == Fill::kExtremes ? word >> 62 : 3;
        x = choice < 3 ? extremes[choice] : word % bound;
    }
    return limb;
}

// NTT primes for 2^log_n: the two largest below 2^50, those next to 2^30, 2^32, 2^46 and 2^48 (where kernels may change their
// way of reducing, or of reading; above them if there is one close by), one of middle size, and the smallest. Where programs
// are watched, one of each size.
inline std::vector<Modulus> test_moduli(int log_n) {
    const std::uint64_t n = std::uint64_t{1} << log_n;
    std::vector<Modulus> moduli;
    for (const std::uint64_t q : primes_below(n, 50, kWatched ? 1 : 2)) moduli.emplace_back(q);
    for (const int bits : {30, 32, 46, 48}) {
        if (kWatched && bits == 46) continue;
        moduli.emplace_back(primes_below(n, bits, 1)[0]);
        const std::vector<std::uint64_t> near = primes_near(n, std::ldexp(1.0, bits), 4);
        const auto above = std::find_if(near.begin(), near.end(), [&](auto q) { return q >> bits > 0; });
        if (above != near.end()) moduli.emplace_back(*above);
    }
    moduli.emplace_back(primes_near(n, 0x1p40, 1)[0]);
    moduli.emplace_back(primes_near(n, static_cast<double>(2 * n + 1), 1)[0]);
    return moduli;
}

inline std::vector<const std::uint64_t*> pointers(const std::vector<Limb>& limbs) {
    std::vector<const std::uint64_t*> result;
    for (const Limb& limb : limbs) result.push_back(limb.data());
    return result;
}

// Limbs as factors of a sum, in halves of their words.
class Factors {
  public:
    Factors(const std::vector<Limb>& limbs, std::size_t halves) {
        const int bits = halves == 1 ? kHalfBits : kMaxModulusBits;
        for (const Limb& limb : limbs) {
            // Not where a cache line begins: they need no alignment beyond that of a word.
            halves_.emplace_back(limb.size() * halves + 2);
            write_factor(halves_.back().data() + 2, limb.data(), limb.size(), bits);
            pointers_.push_back(halves_.back().data() + 2);
        }
    }
    const void* const* data() const { return pointers_.data(); }

  private:
    std::vector<AlignedVector<std::uint32_t>> halves_;
    std::vector<const void*> pointers_;
};

inline const Kernels& scalar() { return *kernels_by_name("scalar"); }

// The rest of a transform that base_convert_ntt has begun.
inline void finish_ntt(std::uint64_t* x, const NttTable& table) {
    const int parts = kernels().ntt_parts(table.log_n);
    for (int part = 0; part < parts; ++part) {
        std::uint64_t* const words =
            x + (static_cast<std::size_t>(part) << table.log_n) / static_cast<std::size_t>(parts);
        kernels().ntt_part(&words, &words, 1, part, false, {}, table);
    }
}

// x * 2^-52 mod q.
inline std::uint64_t from_montgomery(std::uint64_t x, const Modulus& m) {
    return mul_mod(x, inv_mod(m.r_mod_q, m), m);
}

}  // namespace cipherblas::testing
