#include "ring/samplers.h"

#include <stdexcept>

#include "ring/kernels.h"

namespace cipherblas {
void UniformResidues::next(std::uint64_t* out, std::size_t n) {
    const Kernels& k = kernels();
    for (;;) {
        if (left_ < n) throw std::runtime_error("uniform residues: the random words ran out");
        const std::size_t done = k.uniform(out, words_, n, modulus_);
        out += done;
        words_ += done;
        n -= done;
        left_ -= done;
        if (n == 0) return;
        ++words_;  // a refused one
        --left_;
    }
}

void sample_uniform(std::uint64_t* out, const std::uint64_t* words, std::size_t n, const Modulus& m) {
    UniformResidues(words, n + kUniformSpareWords, m).next(out, n);
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
