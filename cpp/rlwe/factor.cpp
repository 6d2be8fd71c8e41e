#include "rlwe/factor.h"

#include <stdexcept>
#include <string>

#include "ring/kernels.h"
#include "ring/packing.h"
#include "ring/pool.h"
#include "ring/threads.h"
#include "rlwe/encryption.h"

namespace cipherblas {
namespace {

// The residues at one limb, as words.
Buffer residues(const Context& context, const std::int64_t* coefficients, int limb, bool symmetric) {
    Buffer words = Buffer::of_words(context.n());
    kernels().ntt_of_signed(words.words(), coefficients, context.modulus(limb).r_mod_q, symmetric,
                            context.table(limb));
    return words;
}

}  // namespace

void encode_factor(const Context& context, const std::int64_t* coefficients, int limbs, bool special,
                   std::size_t repeats, std::uint32_t* out) {
    const std::size_t n = context.n();
    for (std::size_t i = 0; i < n; ++i) {
        if (i % repeats == 0 || coefficients[i] == 0) continue;
        throw std::invalid_argument("coefficients: expected 0 but for those of X^" + std::to_string(repeats) +
                                    ", got that of X^" + std::to_string(i));
    }
    const std::size_t rows = static_cast<std::size_t>(limbs + (special ? context.num_p() : 0));
    const bool symmetric = is_symmetric(coefficients, n);
    parallel_for(
        rows, threads_for_work(rows, rows * context.transform_operations()), [&](std::size_t row, int) {
            const int limb =
                static_cast<int>(row) + (static_cast<int>(row) < limbs ? 0 : context.num_q() - limbs);
            const Buffer words = residues(context, coefficients, limb, symmetric);
            const std::size_t kept = n / repeats;
            for (std::size_t i = 1; repeats > 1 && i < kept; ++i)
                words.words()[i] = words.words()[i * repeats];
            write_factor(out + halves_before(context, limbs, limb) * kept, words.words(), kept,
                         context.modulus(limb).bits);
        });
}

void encode_factors(const Context& context, const std::vector<const std::int64_t*>& coefficients,
                    std::size_t first, const FactorBlock& block) {
    const std::size_t n = context.n(), limbs = static_cast<std::size_t>(block.limbs);
    const std::size_t tasks = coefficients.size() * limbs;
    std::vector<char> symmetric;
    for (const std::int64_t* const one : coefficients) symmetric.push_back(is_symmetric(one, n));
    parallel_for(tasks, threads_for_work(tasks, tasks * context.transform_operations()),
                 [&](std::size_t task, int) {
                     const std::size_t term = task / limbs;
                     const int limb = static_cast<int>(task % limbs), bits = context.modulus(limb).bits;
                     const Buffer words = residues(context, coefficients[term], limb, symmetric[term] != 0);
                     std::uint32_t* const to = block.halves + context.halves_before(limb) * n * block.terms;
                     for (std::size_t start = 0; start < n; start += block.width) {
                         const std::size_t piece = start * block.terms + (first + term) * block.width;
                         write_factor(to + piece * halves_of(bits), words.words() + start, block.width, bits);
                     }
                 });
}

}  // namespace cipherblas
