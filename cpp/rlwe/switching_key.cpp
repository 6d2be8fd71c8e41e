#include "rlwe/switching_key.h"

#include "ring/kernels.h"
#include "ring/pool.h"
#include "ring/threads.h"

namespace cipherblas {

void make_switching_key(const Context& context, const PolynomialView& secret, const PolynomialView& source,
                        const std::uint64_t* a, const std::int64_t* noise, int limbs, std::uint64_t* out) {
    const Kernels& k = kernels();
    const std::size_t n = context.n();
    const std::size_t rows = static_cast<std::size_t>(limbs + context.num_p());
    const std::size_t words = context.key_words(limbs);
    const BaseConversion& special = context.conversion(0, 0, true);
    const std::size_t tasks = static_cast<std::size_t>(context.digits(limbs)) * rows;
    const int threads = threads_for(tasks);
    const Buffer scratch = Buffer::of_words(static_cast<std::size_t>(threads) * 2 * n);
    parallel_for(tasks, threads, [&](std::size_t task, int thread) {
        const std::size_t digit = task / rows;
        const int row = static_cast<int>(task % rows);
        const int limb = row < limbs ? row : context.num_q() + row - limbs;
        const Modulus& m = context.modulus(limb);
        const std::uint64_t* const a_limb = a + task * n;
        std::uint64_t* const key = out + digit * 2 * words + context.key_words_before(limbs, limb);
        std::uint64_t* const product = scratch.words() + static_cast<std::size_t>(thread) * 2 * n;
        std::uint64_t* const b = product + n;

        k.ntt_of_signed(b, noise + digit * n, 1, false, context.table(limb));
        if (limb < limbs && context.owner(limb) == static_cast<int>(digit)) {
            k.mul_scalar(product, source.limb(limb), special.product(limb), n, m);
            k.add(b, b, product, n, m);
        }
        k.mul_scalar(b, b, m.r_mod_q, n, m);
        k.mul(product, a_limb, secret.limb(limb), n, m);
        k.sub(b, b, product, n, m);
        pack(key, b, n, context.key_bits(limb));
        pack(key + words, a_limb, n, context.key_bits(limb));
    });
}

}  // namespace cipherblas
