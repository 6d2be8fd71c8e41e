#include "arith/primes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>

#include "arith/modulus.h"

namespace cipherblas {

namespace {

std::uint64_t multiply(std::uint64_t a, std::uint64_t b, std::uint64_t m) {
    return static_cast<std::uint64_t>(static_cast<u128>(a) * b % m);
}

std::uint64_t power(std::uint64_t base, std::uint64_t exponent, std::uint64_t m) {
    std::uint64_t result = 1;
    for (; exponent != 0; exponent >>= 1) {
        if (exponent & 1) result = multiply(result, base, m);
        base = multiply(base, base, m);
    }
    return result;
}

void check_degree(std::uint64_t n) {
    if (!std::has_single_bit(n) || n < 8 || n > (std::uint64_t{1} << 17)) {
        throw std::invalid_argument("ring degree: expected a power of two from 2^3 to 2^17, got " +
                                    std::to_string(n));
    }
}

// More than any ring takes; to look for billions would take for ever.
constexpr int kMaxPrimes = 4096;

void check_count(int count) {
    if (count < 0 || count > kMaxPrimes) {
        throw std::invalid_argument("prime count: expected 0 to " + std::to_string(kMaxPrimes) + ", got " +
                                    std::to_string(count));
    }
}

[[noreturn]] void throw_too_few(int count, std::size_t found) {
    throw std::invalid_argument("primes 1 mod 2n: expected " + std::to_string(count) + ", got only " +
                                std::to_string(found));
}

bool contains(const std::vector<std::uint64_t>& values, std::uint64_t value) {
    return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

bool is_prime(std::uint64_t candidate) {
    // These bases decide every integer below 3.3e24 (Sorenson, Webster 2015).
    constexpr std::array<std::uint64_t, 12> bases = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
    if (candidate < 2) return false;
    for (const std::uint64_t base : bases) {
        if (candidate % base == 0) return candidate == base;
    }
    const int twos = std::countr_zero(candidate - 1);
    const std::uint64_t odd = (candidate - 1) >> twos;
    for (const std::uint64_t base : bases) {
        std::uint64_t x = power(base, odd, candidate);
        if (x == 1 || x == candidate - 1) continue;
        bool composite = true;
        for (int i = 1; i < twos && composite; ++i) {
            x = multiply(x, x, candidate);
            composite = x != candidate - 1;
        }
        if (composite) return false;
    }
    return true;
}

std::vector<std::uint64_t> primes_below(std::uint64_t n, int bits, int count,
                                        const std::vector<std::uint64_t>& exclude) {
    check_degree(n);
    check_count(count);
    if (bits < 2 || bits > kMaxModulusBits) {
        throw std::invalid_argument("prime bits: expected 2 to 50, got " + std::to_string(bits));
    }
    const std::uint64_t step = 2 * n;
    std::vector<std::uint64_t> found;
    for (std::uint64_t k = ((std::uint64_t{1} << bits) - 2) / step; k > 0; --k) {
        if (found.size() == static_cast<std::size_t>(count)) break;
        const std::uint64_t candidate = k * step + 1;
        if (is_prime(candidate) && !contains(exclude, candidate)) found.push_back(candidate);
    }
    if (found.size() != static_cast<std::size_t>(count)) throw_too_few(count, found.size());
    return found;
}

std::vector<std::uint64_t> primes_near(std::uint64_t n, double target, int count,
                                       const std::vector<std::uint64_t>& exclude) {
    check_degree(n);
    check_count(count);
    const double limit = std::ldexp(1.0, kMaxModulusBits);
    if (!(target >= 2.0 && target <= limit)) {
        throw std::invalid_argument("prime target: expected 2 to 2^50, got " + std::to_string(target));
    }
    const std::uint64_t step = 2 * n;
    const std::uint64_t last = ((std::uint64_t{1} << kMaxModulusBits) - 2) / step;
    std::uint64_t below =
        std::min(last, (static_cast<std::uint64_t>(target) - 1) / step);  // going down; 0: exhausted
    std::uint64_t above = below + 1;                                      // going up; > last: exhausted
    std::vector<std::uint64_t> found;
    while (found.size() < static_cast<std::size_t>(count) && (below > 0 || above <= last)) {
        // Both candidates are below 2^50, so the distances are exact to well under one step.
        const double distance_below = target - static_cast<double>(below * step + 1);
        const double distance_above = static_cast<double>(above * step + 1) - target;
        const bool take_below = below > 0 && (above > last || distance_below <= distance_above);
        const std::uint64_t candidate = (take_below ? below-- : above++) * step + 1;
        if (is_prime(candidate) && !contains(exclude, candidate)) found.push_back(candidate);
    }
    if (found.size() != static_cast<std::size_t>(count)) throw_too_few(count, found.size());
    return found;
}

}  // namespace cipherblas
