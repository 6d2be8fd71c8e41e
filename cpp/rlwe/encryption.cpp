#include "rlwe/encryption.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "ring/kernels.h"
#include "ring/pool.h"
#include "ring/samplers.h"
#include "ring/threads.h"

namespace cipherblas {

bool is_symmetric(const std::int64_t* coefficients, std::size_t n) {
    if (coefficients[n / 2] != 0) return false;
    constexpr std::size_t kStep = 64;
    for (std::size_t first = 1; first < n / 2; first += kStep) {
        const std::size_t end = std::min(first + kStep, n / 2);
        std::uint64_t differences = 0;
        for (std::size_t k = first; k < end; ++k) {
            differences |=
                static_cast<std::uint64_t>(coefficients[k]) + static_cast<std::uint64_t>(coefficients[n - k]);
        }
        if (differences != 0) return false;
    }
    return true;
}

void encode_residues(const Context& context, const std::int64_t* coefficients, const int* positions,
                     int count, bool montgomery, std::uint64_t* out) {
    const Kernels& k = kernels();
    const std::size_t n = context.n();
    const std::size_t rows = static_cast<std::size_t>(count);
    const bool symmetric = is_symmetric(coefficients, n);
    parallel_for(
        rows, threads_for_work(rows, rows * context.transform_operations()), [&](std::size_t row, int) {
            const int limb = positions[row];
            const Modulus& m = context.modulus(limb);
            std::uint64_t* const x = out + row * n;
            k.ntt_of_signed(x, coefficients, montgomery ? m.r_mod_q : 1, symmetric, context.table(limb));
        });
}

namespace {

// Sum of two coefficient vectors; both are far below 2^62.
Buffer sum(const std::int64_t* x, const std::int64_t* y, std::size_t n) {
    Buffer result = Buffer::of_words(n);
    std::int64_t* const out = static_cast<std::int64_t*>(result.data());
    for (std::size_t i = 0; i < n; ++i) {
        out[i] =
            static_cast<std::int64_t>(static_cast<std::uint64_t>(x[i]) + static_cast<std::uint64_t>(y[i]));
    }
    return result;
}

// Errors and a message, to be brought into NTT form limb by limb.
class Plain {
  public:
    Plain(const Context& context, const std::int64_t* errors, const MessageView& message)
        : context_(context), errors_(errors), message_(message) {
        if (message.factors == nullptr) sum_ = sum(errors, message.coefficients, context.n());
    }

    void transform(int limb, std::uint64_t* out) const {
        constexpr std::size_t kPiece = 1024;  // words that stay in the first-level cache
        const Kernels& k = kernels();
        const std::size_t n = context_.n();
        const Modulus& m = context_.modulus(limb);
        if (message_.factors == nullptr) {
            k.ntt_of_signed(out, static_cast<const std::int64_t*>(sum_.data()), 1, false,
                            context_.table(limb));
            return;
        }
        alignas(64) std::uint64_t errors[kPiece];
        for (std::size_t offset = 0; offset < n; offset += kPiece) {
            const std::size_t words = std::min(kPiece, n - offset);
            std::uint64_t* const x = out + offset;
            k.from_signed(x, message_.coefficients + offset, words, m);
            k.mul_scalar(x, x, message_.factors[limb], words, m);
            k.from_signed(errors, errors_ + offset, words, m);
            k.add(x, x, errors, words, m);
        }
        k.ntt(out, context_.table(limb));
    }

  private:
    const Context& context_;
    const std::int64_t* errors_;
    MessageView message_;
    Buffer sum_;
};

}  // namespace

void encrypt_symmetric(const Context& context, const PolynomialView& secret, const PolynomialView& a,
                       const std::int64_t* noise, const MessageView& message, int limbs, std::uint64_t* out) {
    const Kernels& k = kernels();
    const std::size_t n = context.n();
    const Plain plain(context, noise, message);
    const std::size_t tasks = static_cast<std::size_t>(limbs);
    const int threads = threads_for_work(tasks, tasks * context.transform_operations());
    const Buffer scratch = Buffer::of_words(static_cast<std::size_t>(threads) * n);
    parallel_for(tasks, threads, [&](std::size_t task, int thread) {
        const int limb = static_cast<int>(task);
        const Modulus& m = context.modulus(limb);
        std::uint64_t* const b = out + task * n;
        std::uint64_t* const product = scratch.words() + static_cast<std::size_t>(thread) * n;
        plain.transform(limb, b);
        k.mul(product, a.limb(limb), secret.limb(limb), n, m);
        k.sub(b, b, product, n, m);
    });
}

void expand_fresh(const Context& context, const PolynomialView& b, const std::uint64_t* random,
                  std::ptrdiff_t stride, const std::uint64_t* factors, const CiphertextSpan& out) {
    constexpr std::size_t kPiece = 1024,
                          kOperations = 4;  // words that stay in the first-level cache, and of each
    const Kernels& k = kernels();
    const std::size_t limbs = static_cast<std::size_t>(out.limbs);
    parallel_for(limbs, threads_for_work(limbs, kOperations * limbs * out.n), [&](std::size_t limb, int) {
        const int i = static_cast<int>(limb);
        const Modulus& m = context.modulus(i);
        UniformResidues uniform(random + i * stride, out.n + kUniformSpareWords, m);
        for (std::size_t offset = 0; offset < out.n; offset += kPiece) {
            const std::size_t words = std::min(kPiece, out.n - offset);
            std::uint64_t* const a = out.limb(1, i) + offset;
            uniform.next(a, words);
            if (factors == nullptr) {
                std::memcpy(out.limb(0, i) + offset, b.limb(i) + offset, words * sizeof(std::uint64_t));
            } else {
                k.mul_scalar(a, a, factors[limb], words, m);
                k.mul_scalar(out.limb(0, i) + offset, b.limb(i) + offset, factors[limb], words, m);
            }
        }
    });
}

void encrypt_public(const Context& context, const CiphertextView& public_key, const std::int64_t* v,
                    const std::int64_t* e0, const std::int64_t* e1, const MessageView& message,
                    const CiphertextSpan& out) {
    const Kernels& k = kernels();
    const std::size_t n = context.n();
    const Plain plain(context, e0, message);
    const std::size_t tasks = static_cast<std::size_t>(out.limbs);
    const int threads = threads_for_work(tasks, tasks * context.transform_operations());
    const Buffer scratch = Buffer::of_words(static_cast<std::size_t>(threads) * 2 * n);
    parallel_for(tasks, threads, [&](std::size_t task, int thread) {
        const int limb = static_cast<int>(task);
        const Modulus& m = context.modulus(limb);
        std::uint64_t* const factor = scratch.words() + static_cast<std::size_t>(thread) * 2 * n;
        std::uint64_t* const product = factor + n;
        k.ntt_of_signed(factor, v, 1, false, context.table(limb));
        for (int c = 0; c < 2; ++c) {
            std::uint64_t* const x = out.limb(c, limb);
            if (c == 0) {
                plain.transform(limb, x);
            } else {
                k.ntt_of_signed(x, e1, 1, false, context.table(limb));
            }
            k.mul(product, public_key.limb(c, limb), factor, n, m);
            k.add(x, x, product, n, m);
        }
    });
}

namespace {

// Digit i of the mixed-radix representation x = d_0 + q_0 (d_1 + q_1 (d_2 + …)) of the integers in [0, Q).
void mixed_radix_digit(const Context& context, const std::uint64_t* const* digits, int i,
                       const std::uint64_t* residues, std::size_t n, std::uint64_t* out) {
    const Modulus& m = context.modulus(i);
    std::vector<std::uint64_t> weights;  // -q_0 … q_{j-1}
    std::uint64_t product = 1;
    for (int j = 0; j < i; ++j) {
        weights.push_back(to_montgomery(m.q - product, m));
        product = mul_mod(product, context.modulus(j).q % m.q, m);
    }
    kernels().base_convert(out, digits, weights.data(), i, nullptr, 0, n, m);
    kernels().add_mul_scalar(out, residues, out, inv_mod(product, m), n, m);
}

// The nearest double to an integer below 2^100: both halves are exact, and their sum is rounded once.
double nearest_double(u128 x) {
    constexpr int kLow = 48;
    const auto high = static_cast<std::int64_t>(x >> kLow);
    const auto low =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(x) & ((std::uint64_t{1} << kLow) - 1));
    return static_cast<double>(high) * 0x1p48 + static_cast<double>(low);
}

// d_0 + q_0 (d_1 + q_1 (d_2 + …)) + carry: below 2^100 rounded to the nearest double, else within an ulp of it.
double from_mixed_radix(const std::uint64_t* digits, const std::vector<std::uint64_t>& moduli, int carry) {
    std::size_t top = moduli.size() - 1;
    while (top > 1 && digits[top] == 0) --top;
    if (top <= 1) {
        const u128 value = static_cast<u128>(moduli[0]) * digits[1] + digits[0];
        return nearest_double(value + static_cast<unsigned>(carry));
    }
    long double value = static_cast<long double>(digits[top]);
    while (top-- > 0) {
        value = value * static_cast<long double>(moduli[top]) + static_cast<long double>(digits[top]);
    }
    return static_cast<double>(value + carry);
}

double centred(std::uint64_t x0, std::uint64_t q0) {
    const std::int64_t value = static_cast<std::int64_t>(x0);
    return static_cast<double>(x0 > q0 / 2 ? value - static_cast<std::int64_t>(q0) : value);
}

double centred(std::uint64_t d0, std::uint64_t d1, std::uint64_t q0, u128 product) {
    const u128 value = d0 + static_cast<u128>(q0) * d1;
    return value > product / 2 ? -nearest_double(product - value) : nearest_double(value);
}

// The same for three digits and more, which are overwritten. (Q - 1) / 2 has the digits (q_j - 1) / 2, and Q - x has the
// digits q_j - 1 - d_j, plus 1.
double centred(std::vector<std::uint64_t>& digits, const std::vector<std::uint64_t>& moduli) {
    std::size_t top = digits.size() - 1;
    while (top > 0 && digits[top] == moduli[top] / 2) --top;
    if (digits[top] <= moduli[top] / 2) return from_mixed_radix(digits.data(), moduli, 0);
    for (std::size_t j = 0; j < digits.size(); ++j) digits[j] = moduli[j] - 1 - digits[j];
    return -from_mixed_radix(digits.data(), moduli, 1);
}

}  // namespace

void centre_residues(const Context& context, const std::uint64_t* const* x, int limbs, std::size_t n,
                     std::uint64_t* scratch, double* out) {
    std::vector<const std::uint64_t*> digits{x[0]};
    std::vector<std::uint64_t> moduli{context.modulus(0).q};
    for (int i = 1; i < limbs; ++i) {
        std::uint64_t* const digit = scratch + static_cast<std::size_t>(i - 1) * n;
        mixed_radix_digit(context, digits.data(), i, x[i], n, digit);
        digits.push_back(digit);
        moduli.push_back(context.modulus(i).q);
    }
    if (limbs == 1) {
        for (std::size_t i = 0; i < n; ++i) out[i] = centred(x[0][i], moduli[0]);
    } else if (limbs == 2) {
        const u128 product = static_cast<u128>(moduli[0]) * moduli[1];
        for (std::size_t i = 0; i < n; ++i) {
            out[i] = centred(digits[0][i], digits[1][i], moduli[0], product);
        }
    } else {
        std::vector<std::uint64_t> own(digits.size());
        for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t j = 0; j < own.size(); ++j) own[j] = digits[j][i];
            out[i] = centred(own, moduli);
        }
    }
}

void decrypt_coefficients(const Context& context, const PolynomialView& secret,
                          const CiphertextView& ciphertext, double* out) {
    const Kernels& k = kernels();
    const std::size_t n = context.n();
    const std::size_t limbs = static_cast<std::size_t>(ciphertext.limbs);
    const Buffer scratch = Buffer::of_words(limbs * 2 * n);
    parallel_for(limbs, threads_for_work(limbs, limbs * context.transform_operations()),
                 [&](std::size_t task, int) {
                     const int limb = static_cast<int>(task);
                     const Modulus& m = context.modulus(limb);
                     std::uint64_t* const x = scratch.words() + task * n;
                     std::uint64_t* const product = x + limbs * n;
                     const std::uint64_t* const s = secret.limb(limb);
                     // Horner: (c2 s + a) s + b
                     if (ciphertext.components == 3) {
                         k.mul(product, ciphertext.limb(2, limb), s, n, m);
                         k.add(x, product, ciphertext.limb(1, limb), n, m);
                         k.mul(product, x, s, n, m);
                     } else {
                         k.mul(product, ciphertext.limb(1, limb), s, n, m);
                     }
                     k.add(x, product, ciphertext.limb(0, limb), n, m);
                     k.intt(x, context.table(limb));
                 });

    std::vector<const std::uint64_t*> residues;
    for (std::size_t limb = 0; limb < limbs; ++limb) residues.push_back(scratch.words() + limb * n);
    centre_residues(context, residues.data(), ciphertext.limbs, n, scratch.words() + limbs * n, out);
}

}  // namespace cipherblas
