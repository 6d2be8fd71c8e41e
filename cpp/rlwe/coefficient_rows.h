// Encrypted matrices in coefficient form: batches of rows that are encrypted and decrypted together.
//
// The b part is [limb][row][width], the a part [limb][a row][N]: residues in the coefficient domain, so that products
// with matrices are products of these arrays modulo q.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ring/samplers.h"
#include "rlwe/context.h"
#include "rlwe/views.h"

namespace cipherblas {

// Which ring element a row of the matrix lies in, and under which secret.
enum class RowSharing {
    kSecrets,  // row i has an a part of its own; its segment c is encrypted under secret c (RLWE: one segment)
    kMasks,    // segment c of all rows has the same a part c; row i is encrypted under secret i
};

// A row of `width` entries is cut into segments of N, the last one shorter. A segment of `count` entries lies in the
// subring of degree d, the least power of two that holds it: entry j is the coefficient of X^(j N/d). The other
// coefficients of b are not stored.
struct RowLayout {
    std::size_t n, rows, width;
    RowSharing sharing;

    std::size_t segments() const { return (width + n - 1) / n; }
    std::size_t a_rows() const { return sharing == RowSharing::kSecrets ? rows : segments(); }
    std::size_t secrets() const { return sharing == RowSharing::kSecrets ? segments() : rows; }
};

// Secrets in NTT form, `stride` words from one to the next.
struct SecretsView {
    const std::uint64_t* data = nullptr;
    std::ptrdiff_t stride = 0, limb_stride = 0;

    const std::uint64_t* limb(std::size_t secret, int limb) const {
        return data + static_cast<std::ptrdiff_t>(secret) * stride + limb * limb_stride;
    }
};

// scale * matrix rounded by chance (round_by_chance), of any size: reduced modulo each prime. matrix: [rows][width].
// dither: a random word that no error depends on.
struct RowMessages {
    const double* matrix = nullptr;
    double scale = 1.0;
    std::uint64_t dither = 0;

    // Those from entry `first` on.
    RowMessages from(std::size_t first) const {
        return {matrix + first, scale, dither + first * kDitherStep};
    }
    double rounded(std::size_t i) const {
        return round_by_chance(scale * matrix[i], dither + i * kDitherStep);
    }
};

// b = -a s + e + m. noise_words: [rows][width] random words (sample_gaussian). a and b: `limbs` limbs.
void encrypt_rows(const Context& context, const RowLayout& layout, const SecretsView& secrets,
                  const std::uint64_t* a, const std::uint64_t* noise_words, const RowMessages& messages,
                  int limbs, std::uint64_t* b);

// (pk_0 v + e_0 + m, pk_1 v + e_1), one v per row; the layout has one segment. Per row: ternary_count random bytes of v
// (sample_ternary), width words of e_0, N words of e_1.
struct RowRandomness {
    const std::uint8_t* ternary = nullptr;
    std::size_t ternary_count = 0;
    const std::uint64_t* e0 = nullptr;
    const std::uint64_t* e1 = nullptr;
};
void encrypt_rows_public(const Context& context, const RowLayout& layout, const CiphertextView& public_key,
                         const RowRandomness& randomness, const RowMessages& messages, int limbs,
                         std::uint64_t* a, std::uint64_t* b);

// out[rows][width]: b + a s in (-Q/2, Q/2), Q the product of all primes of the rows; exact, then rounded to double and
// divided by `scale`.
void decrypt_rows(const Context& context, const RowLayout& layout, const SecretsView& secrets,
                  const std::uint64_t* a, const std::uint64_t* b, int limbs, double scale, double* out);

// Signed coefficients [row][N] to [row][count][N] in NTT form, for the limbs at `positions` of the basis.
void encode_rows(const Context& context, const std::int64_t* coefficients, std::size_t rows,
                 const int* positions, int count, std::uint64_t* out);

// Between [limb][row][N] in the coefficient domain and [row][limb][N] in NTT form, where the key switch works.
void rows_to_ntt(const Context& context, const std::uint64_t* x, std::size_t rows, int limbs,
                 std::uint64_t* out);
void rows_from_ntt(const Context& context, const std::uint64_t* x, std::size_t rows, int limbs,
                   std::uint64_t* out);

// r = x + y, x - y and x * factor on arrays of `words` residues per limb; factor[limb] < q.
void add_limbs(const Context& context, const std::uint64_t* x, const std::uint64_t* y, std::size_t words,
               int limbs, std::uint64_t* r);
void subtract_limbs(const Context& context, const std::uint64_t* x, const std::uint64_t* y, std::size_t words,
                    int limbs, std::uint64_t* r);
void scale_limbs(const Context& context, const std::uint64_t* x, const std::uint64_t* factor,
                 std::size_t words, int limbs, std::uint64_t* r);

// r = (x - [x]_q) / q on the limbs before the last one, q its prime and [x]_q centred: x / q, rounded.
void rescale_limbs(const Context& context, const std::uint64_t* x, std::size_t words, int limbs,
                   std::uint64_t* r);

}  // namespace cipherblas
