// The coarse order: full hoisted ModUp, then rotation by rotation over whole ciphertexts modulo Q P. It streams every
// rotated ciphertext through memory; it is the baseline that the limb-outer order is measured against.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "ring/kernels.h"
#include "ring/threads.h"
#include "rlwe/extended_limbs.h"
#include "rlwe/mod_down.h"

namespace cipherblas {
namespace {

std::vector<int> all_limbs(const TransformPlan& plan) {
    std::vector<int> limbs(static_cast<std::size_t>(plan.limbs));
    std::iota(limbs.begin(), limbs.end(), 0);
    for (int j = 0; plan.extended && j < plan.context->num_p(); ++j)
        limbs.push_back(plan.context->num_q() + j);
    return limbs;
}

}  // namespace

void run_rotation_order(const TransformPlan& plan, std::uint64_t* const* out) {
    const Kernels& k = kernels();
    const Context& context = *plan.context;
    const std::size_t n = context.n();
    const std::vector<int> limbs = all_limbs(plan);
    const Decompositions decompositions = decompose(plan);
    ExtendedLimbs extended(plan, decompositions, static_cast<int>(limbs.size()));
    const std::size_t group =
        static_cast<std::size_t>(limbs_per_group(n, static_cast<int>(limbs.size()), context.alpha()));
    parallel_for((limbs.size() + group - 1) / group, [&](std::size_t task) {
        const std::size_t first = task * group;
        const std::size_t end = std::min(first + group, limbs.size());
        extended.convert(&limbs[first], static_cast<int>(end - first), static_cast<int>(first));
        for (std::size_t t = first; t < end; ++t) extended.transform(limbs[t], static_cast<int>(t));
    });

    const std::size_t words = limbs.size() * n;
    const Buffer sum = Buffer::of_words(2 * words);
    const Buffer rotated = Buffer::of_words(2 * words);
    const int threads = threads_for(limbs.size());
    const Buffer encoded = Buffer::of_words(static_cast<std::size_t>(threads) * n);
    const std::size_t kept = static_cast<std::size_t>(plan.kept);
    for (std::size_t o = 0; o < static_cast<std::size_t>(plan.outputs); ++o) {
        std::memset(sum.words(), 0, 2 * words * sizeof(std::uint64_t));
        for (std::size_t i = plan.first_term[o]; i < plan.first_term[o + 1]; ++i) {
            const PlannedTerm& term = plan.terms[i];
            const bool second =
                term.key == nullptr || plan.sources[static_cast<std::size_t>(term.source)].keeps_second;
            const auto skipped = [&](std::size_t t) {
                return plan.is_special(limbs[t]) && term.key == nullptr;
            };

            parallel_for(limbs.size(), [&](std::size_t t) {
                if (skipped(t)) return;
                std::vector<const std::uint64_t*> keys;
                RotationTerm r;
                r.permutation = term.permutation.get();
                plan.add_parts(plan.sources[static_cast<std::size_t>(term.source)], limbs[t], second, r);
                if (term.key != nullptr) {
                    r.digit_count = extended.all().size();
                    r.key_bits = term.key->bits(limbs[t]);
                    r.digits = extended.digits(term.source, static_cast<int>(t));
                    for (int d = 0; d < 2 * r.digit_count; ++d) {
                        keys.push_back(term.key->limb(d % r.digit_count, d / r.digit_count, limbs[t]));
                    }
                    r.key0 = keys.data();
                    r.key1 = keys.data() + r.digit_count;
                }
                k.accumulate_terms(rotated.words() + t * n, rotated.words() + words + t * n, &r, 1, false, 0,
                                   n, context.modulus(limbs[t]));
            });
            parallel_for(limbs.size(), threads, [&](std::size_t t, int thread) {
                if (skipped(t)) return;
                const Modulus& m = context.modulus(limbs[t]);
                std::uint64_t* const sum0 = sum.words() + t * n;
                std::uint64_t* const sum1 = sum0 + words;
                const std::uint64_t* const r0 = rotated.words() + t * n;
                const std::uint64_t* const r1 = r0 + words;
                if (term.plaintext == nullptr) {
                    k.add(sum0, sum0, r0, n, m);
                    k.add(sum1, sum1, r1, n, m);
                } else {
                    const void* const plaintext =
                        plaintext_limb(plan, *term.plaintext, limbs[t],
                                       encoded.words() + static_cast<std::size_t>(thread) * n);
                    k.multiply_plain_sum(sum0, sum1, &plaintext, 2, 1, &r0, &r1, 1, true, n, m);
                }
            });
        }

        const auto sum_limb = [&](std::size_t component, int limb) {
            const int row = plan.is_special(limb) ? plan.limbs + limb - context.num_q() : limb;
            return sum.words() + component * words + static_cast<std::size_t>(row) * n;
        };
        if (plan.dropped == nullptr) {
            std::memcpy(out[o], sum.words(), 2 * words * sizeof(std::uint64_t));
            continue;
        }
        std::vector<const std::uint64_t*> dropped, kept_limbs;
        std::vector<std::uint64_t*> out_limbs;
        for (std::size_t c = 0; c < 2; ++c) {
            for (const int limb : plan.dropped->sources()) dropped.push_back(sum_limb(c, limb));
            for (std::size_t j = 0; j < kept; ++j) {
                kept_limbs.push_back(sum_limb(c, static_cast<int>(j)));
                out_limbs.push_back(out[o] + (c * kept + j) * n);
            }
        }
        mod_down(context, *plan.dropped, 2, plan.kept, dropped.data(), kept_limbs.data(), out_limbs.data());
    }
}

}  // namespace cipherblas
