// Search for NTT-friendly primes: p = 1 mod 2n, below 2^50.
#pragma once
#include <cstdint>
#include <vector>

namespace cipherblas {

// Deterministic for all 64-bit integers (Miller-Rabin with the first twelve primes as bases).
bool is_prime(std::uint64_t candidate);

// The `count` largest primes below 2^bits that are 1 mod 2n and not excluded, in descending order.
// Throws std::invalid_argument when n is not a power of two in 2^3..2^17, bits exceeds 50, or there are too
// few primes.
std::vector<std::uint64_t> primes_below(std::uint64_t n, int bits, int count,
                                        const std::vector<std::uint64_t>& exclude = {});

// The `count` primes nearest to target, on either side of it and below 2^50, nearest first.
std::vector<std::uint64_t> primes_near(std::uint64_t n, double target, int count,
                                       const std::vector<std::uint64_t>& exclude = {});

}  // namespace cipherblas
