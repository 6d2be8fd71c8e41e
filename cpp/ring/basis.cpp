#include "ring/basis.h"

#include <bit>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

#include "arith/primes.h"
#include "ring/threads.h"

namespace cipherblas {
namespace {

constexpr std::size_t kPermutationBytes = std::size_t{128} << 20;  // kept for reuse

}  // namespace

Basis::Basis(std::size_t n, const std::vector<std::uint64_t>& primes) : n_(n) {
    if (!std::has_single_bit(n) || n < 8 || n > (std::size_t{1} << 17)) {
        throw std::invalid_argument("ring degree: expected a power of two from 8 to 131072, got " +
                                    std::to_string(n));
    }
    log_n_ = std::countr_zero(n);
    std::set<std::uint64_t> seen;
    for (const std::uint64_t prime : primes) {
        if (prime >= (std::uint64_t{1} << kMaxModulusBits) || prime % (2 * n) != 1 || !is_prime(prime)) {
            throw std::invalid_argument("modulus: expected a prime below 2^50 that is 1 mod " +
                                        std::to_string(2 * n) + ", got " + std::to_string(prime));
        }
        if (!seen.insert(prime).second) {
            throw std::invalid_argument("moduli: expected distinct primes, got " + std::to_string(prime) +
                                        " twice");
        }
    }
    std::vector<std::optional<NttTable>> made(primes.size());
    parallel_for(primes.size(), [&](std::size_t i) { made[i].emplace(Modulus(primes[i]), log_n_); });
    tables_.reserve(primes.size());
    for (auto& table : made) tables_.push_back(std::move(*table));
}

std::shared_ptr<const Permutation> Basis::permutation(std::uint64_t galois) const {
    if (galois % 2 == 0 || galois >= 2 * n_) {
        throw std::invalid_argument("Galois element: expected an odd number below " + std::to_string(2 * n_) +
                                    ", got " + std::to_string(galois));
    }
    {
        const std::lock_guard<std::mutex> guard(permutation_lock_);
        const auto found = by_galois_.find(galois);
        if (found != by_galois_.end()) {
            recent_.splice(recent_.begin(), recent_, found->second);
            return *found->second;
        }
    }
    auto made = std::make_shared<const Permutation>(galois, log_n_);
    const std::lock_guard<std::mutex> guard(permutation_lock_);
    const auto found = by_galois_.find(galois);  // another thread may have been faster
    if (found != by_galois_.end()) return *found->second;
    recent_.push_front(made);
    by_galois_[galois] = recent_.begin();
    const std::size_t bytes_each = n_ * 9 / 2 + sizeof(Permutation);
    while (recent_.size() > 8 && recent_.size() * bytes_each > kPermutationBytes) {
        by_galois_.erase(recent_.back()->galois);
        recent_.pop_back();
    }
    return made;
}

}  // namespace cipherblas
