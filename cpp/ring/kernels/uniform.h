// Words that become uniform residues, one by one: for every instruction set, whole or at the ends.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "arith/modulus.h"

namespace cipherblas {
namespace {  // internal linkage: every instruction set has its own copy
namespace residues {

inline std::uint64_t quotient_of(const Modulus& m) {
    return static_cast<std::uint64_t>((u128{1} << 64) / m.q);
}

std::size_t uniform(std::uint64_t* r, const std::uint64_t* words, std::size_t n, const Modulus& m) {
    const std::uint64_t quotient = quotient_of(m), limit = quotient * m.q;
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint64_t word = words[i];
        if (word >= limit) return i;
        // The estimate of word / q is at most one too small: which of them are is chance, that no branch foresees.
        const std::uint64_t estimate = static_cast<std::uint64_t>((static_cast<u128>(word) * quotient) >> 64);
        const std::uint64_t residue = word - estimate * m.q;
        r[i] = std::min(residue, residue - m.q);
    }
    return n;
}

}  // namespace residues
}  // namespace
}  // namespace cipherblas
