// Twiddle factors of the negacyclic NTT for one ring degree and one prime.
#pragma once
#include <cstdint>
#include <span>

#include "arith/modulus.h"
#include "ring/aligned.h"

namespace cipherblas {

struct NttTable {
    // The powers of one root in bit-reversed order of the exponent, in the forms that the kernels read. The
    // layer with m butterfly blocks uses entries m to 2m - 1.
    struct Powers {
        std::span<const std::uint64_t> plain;     // w
        std::span<const std::uint64_t> quotient;  // floor(w * 2^52 / q) (Shoup)
    };

    Modulus modulus;
    int log_n = 0;
    std::uint64_t psi =
        0;                 // primitive 2N-th root of unity: the smallest one, so that tables are reproducible
    Powers roots;          // psi^bitrev(i)
    Powers inverse_roots;  // psi^-bitrev(i)
    // The last layer of the inverse transform multiplies by N^-1 as well.
    std::uint64_t n_inverse = 0, n_inverse_quotient = 0;
    std::uint64_t last_root = 0, last_root_quotient = 0;  // inverse_roots[1] * N^-1

    // Throws std::invalid_argument unless q is a prime, q = 1 mod 2^(log_n + 1) and 3 <= log_n <= 17.
    NttTable(const Modulus& modulus, int log_n);
    NttTable(NttTable&&) = default;
    NttTable& operator=(NttTable&&) = default;

  private:
    AlignedVector<std::uint64_t> storage_;  // all powers in one block: large ones then lie in huge pages
};

// Room for 2^log_n words of 32 bits, which transforms of this thread may use while they run.
std::uint32_t* short_limb(int log_n);

}  // namespace cipherblas
