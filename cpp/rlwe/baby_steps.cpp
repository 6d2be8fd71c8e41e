#include "rlwe/baby_steps.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

#include "ring/kernels.h"
#include "ring/threads.h"
#include "rlwe/extended_limbs.h"
#include "rlwe/mod_down.h"

namespace cipherblas {
namespace {

constexpr std::size_t kChunkWords = 2048;  // of every rotation: all of them stay in the core's own cache

[[noreturn]] void fail(const std::string& what, const std::string& expected, const std::string& got) {
    throw std::invalid_argument(what + ": expected " + expected + ", got " + got);
}

void check_index(const std::string& what, int index, std::size_t count) {
    if (index >= 0 && index < static_cast<int>(count)) return;
    fail(what, "an index below " + std::to_string(count), std::to_string(index));
}

std::size_t pairs_of(const BabySums& sums) { return static_cast<std::size_t>(sums.source.components / 2); }

void check(const Context& context, const BabySums& sums) {
    const int limbs = sums.source.limbs;
    context.check_limbs(limbs);
    if (context.num_p() == 0) fail("baby steps", "a context with special primes", "none");
    if (sums.source.components % 2 != 0) {
        fail("source", "an even number of components", std::to_string(sums.source.components));
    }
    const std::size_t pairs = pairs_of(sums);
    if (sums.keys.size() % pairs != 0) {
        fail("keys", "a multiple of " + std::to_string(pairs), std::to_string(sums.keys.size()));
    }
    bool has_key = false;
    for (std::size_t b = 0; b < sums.babies.size(); ++b) {
        const BabyStep& baby = sums.babies[b];
        const std::string what = "baby step " + std::to_string(b);
        if (baby.galois % 2 == 0 || baby.galois >= 2 * context.n()) {
            fail(what + ", Galois element", "an odd number below " + std::to_string(2 * context.n()),
                 std::to_string(baby.galois));
        }
        if (baby.key < 0) {
            if (baby.key < -1 || baby.galois != 1) fail(what + ", key", "a key", std::to_string(baby.key));
            continue;
        }
        has_key = true;
        check_index(what + ", key", baby.key, sums.keys.size() / pairs);
        for (std::size_t p = 0; p < pairs; ++p) {
            const int made_for = sums.keys[static_cast<std::size_t>(baby.key) * pairs + p].limbs;
            if (made_for < limbs) {
                fail(what + ", key", "a key for at least " + std::to_string(limbs) + " limbs",
                     std::to_string(made_for));
            }
        }
    }
    if (!has_key) fail("baby steps", "one with a key", "none");
    for (std::size_t o = 0; o < sums.outputs.size(); ++o) {
        const std::string what = "output " + std::to_string(o);
        for (const BabyTerm& term : sums.outputs[o]) {
            check_index(what + ", baby step", term.baby, sums.babies.size());
            check_index(what + ", plaintext", term.plaintext, sums.plaintexts.size());
            const PlaintextView& plaintext = sums.plaintexts[static_cast<std::size_t>(term.plaintext)];
            if (plaintext.limbs < limbs) {
                fail(what + ", plaintext", "at least " + std::to_string(limbs) + " q limbs",
                     std::to_string(plaintext.limbs));
            }
        }
    }
}

// Every baby step of every two components as an output of one term, those of the first two first.
TransformPlan plan_of(const Context& context, const BabySums& sums) {
    TransformPlan plan;
    const std::size_t pairs = pairs_of(sums);
    plan.context = &context;
    plan.limbs = sums.source.limbs;
    plan.outputs = static_cast<int>(pairs * sums.babies.size());
    plan.extended = true;
    add_sources(plan, {sums.source});
    plan.first_term.push_back(0);
    for (std::size_t p = 0; p < pairs; ++p) {
        plan.sources[p].decomposed = true;
        for (const BabyStep& baby : sums.babies) {
            PlannedTerm term;
            term.source = static_cast<int>(p);
            if (baby.key >= 0) {
                term.key = &sums.keys[static_cast<std::size_t>(baby.key) * pairs + p];
            } else if (p + 1 == pairs) {
                plan.sources[p].parts[1] = plan.sources[p].switched.view;
            }
            if (baby.galois != 1) term.permutation = context.basis().permutation(baby.galois);
            plan.terms.push_back(term);
            plan.first_term.push_back(plan.terms.size());
        }
    }
    find_alike(plan);
    finish_plan(plan, false);
    return plan;
}

// The workspace of one thread: limbs that are converted together, and a chunk of every rotation.
class BabyWorker {
  public:
    BabyWorker(const TransformPlan& plan, const Decompositions& decompositions, const BabySums& sums,
               int capacity)
        : plan_(&plan),
          sums_(&sums),
          chunk_(std::min(kChunkWords, plan.context->n())),
          limbs_(plan, decompositions, capacity),
          rotated_(Buffer::workspace_of_words(2 * sums.babies.size() * chunk_)) {
        for (int o = 0; o < plan.outputs; ++o) rotations_.emplace_back(plan);
    }

    void convert(const int* limbs, int count) { limbs_.convert(limbs, count, 0); }

    // target(o, c): where component c of an output goes at that limb, number t of those that were converted.
    template <typename Target>
    void run(int limb, int t, const Target& target) {
        limbs_.transform(limb, t);
        const std::size_t babies = sums_->babies.size();
        for (std::size_t r = 0; r < rotations_.size(); ++r) rotations_[r].start(limbs_, r, limb, t);
        for (std::size_t begin = 0; begin < plan_->context->n(); begin += chunk_) {
            for (std::size_t pair = 0; pair < pairs_of(*sums_); ++pair) {
                for (std::size_t b = 0; b < babies; ++b) {
                    if (vanishes(b)) continue;
                    rotations_[pair * babies + b].run_part(limb, begin, begin + chunk_, rotated(b, 0),
                                                           rotated(b, 1));
                }
                for (std::size_t o = 0; o < sums_->outputs.size(); ++o) add_up(limb, o, pair, begin, target);
            }
        }
    }

  private:
    // A multiple of P, at a special limb: of all components alike.
    bool vanishes(std::size_t b) const { return rotations_[b].terms().empty(); }
    std::uint64_t* rotated(std::size_t b, std::size_t c) const {
        return rotated_.words() + (2 * b + c) * chunk_;
    }

    template <typename Target>
    void add_up(int limb, std::size_t o, std::size_t pair, std::size_t begin, const Target& target) {
        for (std::vector<const std::uint64_t*>& list : pointers_) list.clear();
        for (const BabyTerm& term : sums_->outputs[o]) {
            const std::size_t b = static_cast<std::size_t>(term.baby);
            if (vanishes(b)) continue;
            const PlaintextView& plaintext = sums_->plaintexts[static_cast<std::size_t>(term.plaintext)];
            pointers_[0].push_back(plaintext_limb(*plan_, plaintext, limb, nullptr) + begin);
            for (std::size_t c = 0; c < 2; ++c) pointers_[1 + c].push_back(rotated(b, c));
        }
        std::uint64_t* const sum[2] = {target(o, 2 * pair) + begin, target(o, 2 * pair + 1) + begin};
        if (pointers_[0].empty()) {
            for (std::uint64_t* const words : sum) std::fill_n(words, chunk_, std::uint64_t{0});
            return;
        }
        kernels().multiply_plain_sum(sum[0], sum[1], pointers_[0].data(), pointers_[1].data(),
                                     pointers_[2].data(), pointers_[0].size(), false, chunk_,
                                     plan_->context->modulus(limb));
    }

    const TransformPlan* plan_;
    const BabySums* sums_;
    std::size_t chunk_;
    ExtendedLimbs limbs_;
    std::vector<TermSum> rotations_;
    Buffer rotated_;                                 // [baby][component][chunk]
    std::vector<const std::uint64_t*> pointers_[3];  // plaintexts, and both components of what they multiply
};

}  // namespace

void run_baby_sums(const Context& context, const BabySums& sums, std::uint64_t* const* out) {
    check(context, sums);
    const TransformPlan plan = plan_of(context, sums);
    const Decompositions decompositions = decompose(plan);
    const std::size_t n = context.n(), kept = static_cast<std::size_t>(plan.kept);
    const std::vector<int>& special = plan.dropped->sources();
    const std::size_t outputs = sums.outputs.size(), components = 2 * pairs_of(sums);
    std::vector<int> limbs = special;
    limbs.resize(special.size() + kept);
    std::iota(limbs.begin() + static_cast<std::ptrdiff_t>(special.size()), limbs.end(), 0);

    const int group =
        limbs_per_group(n, static_cast<int>(limbs.size()), std::min(context.alpha(), plan.limbs));
    const std::size_t step = static_cast<std::size_t>(group);
    const std::size_t tasks = (limbs.size() + step - 1) / step;
    const int threads = threads_for(tasks);
    std::vector<BabyWorker> workers;
    for (int thread = 0; thread < threads; ++thread) workers.emplace_back(plan, decompositions, sums, group);
    const Buffer dropped = Buffer::of_words(outputs * components * special.size() * n);
    const auto dropped_limb = [&](std::size_t o, std::size_t c, std::size_t i) {
        return dropped.words() + ((o * components + c) * special.size() + i) * n;
    };
    const auto kept_limb = [&](std::size_t o, std::size_t c, std::size_t i) {
        return out[o] + (c * kept + i) * n;
    };
    parallel_for(tasks, threads, [&](std::size_t task, int thread) {
        BabyWorker& worker = workers[static_cast<std::size_t>(thread)];
        const std::size_t first = task * step, end = std::min(first + step, limbs.size());
        worker.convert(&limbs[first], static_cast<int>(end - first));
        for (std::size_t i = first; i < end; ++i) {
            worker.run(limbs[i], static_cast<int>(i - first), [&](std::size_t o, std::size_t c) {
                return i < special.size() ? dropped_limb(o, c, i) : kept_limb(o, c, i - special.size());
            });
        }
    });
    for (std::size_t o = 0; o < outputs; ++o) {
        std::vector<const std::uint64_t*> low, high;
        std::vector<std::uint64_t*> results;
        for (std::size_t c = 0; c < components; ++c) {
            for (std::size_t i = 0; i < special.size(); ++i) low.push_back(dropped_limb(o, c, i));
            for (std::size_t i = 0; i < kept; ++i) results.push_back(kept_limb(o, c, i));
        }
        high.assign(results.begin(), results.end());
        mod_down(context, *plan.dropped, static_cast<int>(components), plan.kept, low.data(), high.data(),
                 results.data());
    }
}

}  // namespace cipherblas
