// Encryption with the secret or the public key, and decryption to centred coefficients.
#pragma once
#include <cstddef>
#include <cstdint>

#include "rlwe/context.h"
#include "rlwe/views.h"

namespace cipherblas {

// A message as it is encrypted: its coefficients times a number, of which there is a residue for each limb (null: 1).
struct MessageView {
    const std::int64_t* coefficients = nullptr;
    const std::uint64_t* factors = nullptr;
};

// b = -a s + e + m on `limbs` limbs. secret and a in NTT form; noise are coefficients; out in NTT form.
void encrypt_symmetric(const Context& context, const PolynomialView& secret, const PolynomialView& a,
                       const std::int64_t* noise, const MessageView& message, int limbs, std::uint64_t* out);

// The ciphertext (b, a) whose b part was sent, times a number, of which there is a residue for each limb (null: 1). Row i
// of random words, n + kUniformSpareWords of them and a stride apart, is what limb i of a is made of.
void expand_fresh(const Context& context, const PolynomialView& b, const std::uint64_t* random,
                  std::ptrdiff_t stride, const std::uint64_t* factors, const CiphertextSpan& out);

// (pk_0 v + e_0 + m, pk_1 v + e_1) on out.limbs limbs; v, e_0, e_1 are coefficients.
void encrypt_public(const Context& context, const CiphertextView& public_key, const std::int64_t* v,
                    const std::int64_t* e0, const std::int64_t* e1, const MessageView& message,
                    const CiphertextSpan& out);

// Coefficients of b + a s (+ c2 s^2) in (-Q/2, Q/2), with Q the product of the ciphertext's primes: the message is there
// whole when its coefficients are below Q/2. Exact, then rounded to double.
void decrypt_coefficients(const Context& context, const PolynomialView& secret,
                          const CiphertextView& ciphertext, double* out);

// The integers in (-Q/2, Q/2) with the residues x[0] … x[limbs - 1]: exact, then rounded to double (below 2^100 to the
// nearest one, else within an ulp). n is a multiple of 8; scratch has room for (limbs - 1) n words.
void centre_residues(const Context& context, const std::uint64_t* const* x, int limbs, std::size_t n,
                     std::uint64_t* scratch, double* out);

// Whether a(1/X) = a(X), as real slots are encoded: a_(N-k) = -a_k.
bool is_symmetric(const std::int64_t* coefficients, std::size_t n);

// Residues of signed coefficients for the limbs at `positions` of the basis, NTT form, Montgomery if wanted.
void encode_residues(const Context& context, const std::int64_t* coefficients, const int* positions,
                     int count, bool montgomery, std::uint64_t* out);

}  // namespace cipherblas
