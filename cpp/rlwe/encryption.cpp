#include "rlwe/encryption.h"

#include "ring/kernels.h"
#include "ring/pool.h"
#include "ring/threads.h"

namespace cipherblas {

void encode_residues(const Context& context, const std::int64_t* coefficients, const int* positions,
                     int count, bool montgomery, std::uint64_t* out) {
    const Kernels& k = kernels();
    const std::size_t n = context.n();
    parallel_for(static_cast<std::size_t>(count), [&](std::size_t row) {
        const int limb = positions[row];
        const Modulus& m = context.modulus(limb);
        std::uint64_t* const x = out + row * n;
        k.from_signed(x, coefficients, n, m);
        k.ntt(x, context.table(limb));
        if (montgomery) k.mul_scalar(x, x, m.r_mod_q, n, m);
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

}  // namespace

void encrypt_symmetric(const Context& context, const PolynomialView& secret, const PolynomialView& a,
                       const std::int64_t* noise, const std::int64_t* message, int limbs,
                       std::uint64_t* out) {
    const Kernels& k = kernels();
    const std::size_t n = context.n();
    const Buffer plain = sum(noise, message, n);
    const std::size_t tasks = static_cast<std::size_t>(limbs);
    const int threads = threads_for(tasks);
    const Buffer scratch = Buffer::of_words(static_cast<std::size_t>(threads) * n);
    parallel_for(tasks, threads, [&](std::size_t task, int thread) {
        const int limb = static_cast<int>(task);
        const Modulus& m = context.modulus(limb);
        std::uint64_t* const b = out + task * n;
        std::uint64_t* const product = scratch.words() + static_cast<std::size_t>(thread) * n;
        k.from_signed(b, static_cast<const std::int64_t*>(plain.data()), n, m);
        k.ntt(b, context.table(limb));
        k.mul(product, a.limb(limb), secret.limb(limb), n, m);
        k.sub(b, b, product, n, m);
    });
}

void encrypt_public(const Context& context, const CiphertextView& public_key, const std::int64_t* v,
                    const std::int64_t* e0, const std::int64_t* e1, const std::int64_t* message,
                    const CiphertextSpan& out) {
    const Kernels& k = kernels();
    const std::size_t n = context.n();
    const Buffer plain0 = sum(e0, message, n);
    const std::size_t tasks = static_cast<std::size_t>(out.limbs);
    const int threads = threads_for(tasks);
    const Buffer scratch = Buffer::of_words(static_cast<std::size_t>(threads) * 2 * n);
    parallel_for(tasks, threads, [&](std::size_t task, int thread) {
        const int limb = static_cast<int>(task);
        const Modulus& m = context.modulus(limb);
        std::uint64_t* const factor = scratch.words() + static_cast<std::size_t>(thread) * 2 * n;
        std::uint64_t* const product = factor + n;
        k.from_signed(factor, v, n, m);
        k.ntt(factor, context.table(limb));
        for (int c = 0; c < 2; ++c) {
            std::uint64_t* const x = out.limb(c, limb);
            k.from_signed(x, c == 0 ? static_cast<const std::int64_t*>(plain0.data()) : e1, n, m);
            k.ntt(x, context.table(limb));
            k.mul(product, public_key.limb(c, limb), factor, n, m);
            k.add(x, x, product, n, m);
        }
    });
}

void centre_residues(const Context& context, const std::uint64_t* const* x, int limbs, std::size_t n,
                     std::uint64_t* scratch, double* out) {
    const Kernels& k = kernels();
    const Modulus& m0 = context.modulus(0);
    const std::uint64_t* const x0 = x[0];
    if (limbs == 1) {
        for (std::size_t i = 0; i < n; ++i) {
            const std::int64_t value = static_cast<std::int64_t>(x0[i]);
            out[i] = static_cast<double>(x0[i] > m0.q / 2 ? value - static_cast<std::int64_t>(m0.q) : value);
        }
        return;
    }
    const Modulus& m1 = context.modulus(1);
    std::uint64_t* const lift = scratch;
    // x = x0 + q0 ((x1 - x0) / q0 mod q1)
    const std::uint64_t minus_one = to_montgomery(m1.q - 1, m1);
    k.base_convert(lift, &x0, &minus_one, 1, nullptr, 0, n, m1);
    k.add_mul_scalar(lift, x[1], lift, inv_mod(m0.q % m1.q, m1), n, m1);
    const u128 product = static_cast<u128>(m0.q) * m1.q;
    for (std::size_t i = 0; i < n; ++i) {
        const u128 value = x0[i] + static_cast<u128>(m0.q) * lift[i];
        out[i] = value > product / 2 ? -static_cast<double>(product - value) : static_cast<double>(value);
    }
}

void decrypt_coefficients(const Context& context, const PolynomialView& secret,
                          const CiphertextView& ciphertext, double* out) {
    const Kernels& k = kernels();
    const std::size_t n = context.n();
    const int limbs = ciphertext.limbs < 2 ? ciphertext.limbs : 2;
    const Buffer scratch = Buffer::of_words(static_cast<std::size_t>(limbs) * 2 * n);
    parallel_for(static_cast<std::size_t>(limbs), [&](std::size_t task) {
        const int limb = static_cast<int>(task);
        const Modulus& m = context.modulus(limb);
        std::uint64_t* const x = scratch.words() + task * 2 * n;
        std::uint64_t* const product = x + n;
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

    const std::uint64_t* const residues[] = {scratch.words(), scratch.words() + 2 * n};
    centre_residues(context, residues, limbs, n, scratch.words() + n, out);
}

}  // namespace cipherblas
