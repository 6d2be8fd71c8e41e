// The RNS basis: the ring degree, the primes with their NTT tables, and the automorphisms of the ring.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "ring/automorphism.h"
#include "ring/ntt.h"

namespace cipherblas {

class Basis {
  public:
    // n = 2^3 .. 2^17; distinct primes below 2^50 that are 1 mod 2n. Throws std::invalid_argument otherwise.
    Basis(std::size_t n, const std::vector<std::uint64_t>& primes);

    std::size_t n() const { return n_; }
    int log_n() const { return log_n_; }
    int size() const { return static_cast<int>(tables_.size()); }
    const NttTable& table(int i) const { return tables_[static_cast<std::size_t>(i)]; }
    const Modulus& modulus(int i) const { return tables_[static_cast<std::size_t>(i)].modulus; }

    // The permutation of X -> X^galois; recently used ones are kept. Throws std::invalid_argument unless galois is
    // odd and below 2n. Thread-safe.
    std::shared_ptr<const Permutation> permutation(std::uint64_t galois) const;

  private:
    std::size_t n_ = 0;
    int log_n_ = 0;
    std::vector<NttTable> tables_;

    using Recent = std::list<std::shared_ptr<const Permutation>>;
    mutable std::mutex permutation_lock_;
    mutable Recent recent_;  // most recently used first
    mutable std::unordered_map<std::uint64_t, Recent::iterator> by_galois_;
};

}  // namespace cipherblas
