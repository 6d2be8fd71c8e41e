#include "ring/samplers.h"

#include <algorithm>
#include <stdexcept>

#include "ring/kernels.h"

namespace cipherblas {
void sample_uniform(std::uint64_t* out, const std::uint64_t* words, std::size_t n, const Modulus& m) {
    const std::uint64_t quotient = static_cast<std::uint64_t>((u128{1} << 64) / m.q);
    const std::uint64_t limit = quotient * m.q;
    const std::size_t available = n + kUniformSpareWords;
    std::size_t used = 0;
    for (std::size_t i = 0; i < n; ++i) {
        while (used < available && words[used] >= limit) ++used;
        if (used == available) throw std::runtime_error("uniform residues: the random words ran out");
        const std::uint64_t word = words[used++];
        // The estimate of word / q from above's quotient is at most one too small: which of them are is chance, that no
        // branch foresees.
        const std::uint64_t estimate = static_cast<std::uint64_t>((static_cast<u128>(word) * quotient) >> 64);
        const std::uint64_t residue = word - estimate * m.q;
        out[i] = std::min(residue, residue - m.q);
    }
}

void sample_ternary(std::int64_t* out, const std::uint8_t* bytes, std::size_t count, std::size_t n) {
    std::size_t used = 0;
    for (std::size_t i = 0; i < n; ++i) {
        while (used < count && bytes[used] == 255) ++used;
        if (used == count) throw std::runtime_error("ternary coefficients: the random bytes ran out");
        out[i] = static_cast<std::int64_t>(bytes[used++] % 3) - 1;
    }
}

void sample_gaussian(std::int64_t* out, const std::uint64_t* words, std::size_t n) {
    kernels().gaussian(out, words, n);
}

}  // namespace cipherblas
