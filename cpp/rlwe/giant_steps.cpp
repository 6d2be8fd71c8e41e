#include "rlwe/giant_steps.h"

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

constexpr std::size_t kChunkWords = 1024;  // of every rotation: all of them stay in the core's own cache

[[noreturn]] void fail(const std::string& what, const std::string& expected, const std::string& got) {
    throw std::invalid_argument(what + ": expected " + expected + ", got " + got);
}

void check_index(const std::string& what, int index, std::size_t count) {
    if (index >= 0 && index < static_cast<int>(count)) return;
    fail(what, "an index below " + std::to_string(count), std::to_string(index));
}

std::size_t pairs_of(const GiantSteps& steps) {
    return static_cast<std::size_t>(steps.sources.front().components / 2);
}

void check_rotation(const Context& context, const GiantSteps& steps, const Rotation& rotation,
                    const std::string& what) {
    const std::size_t pairs = pairs_of(steps);
    const int limbs = steps.sources.front().limbs;
    if (rotation.galois % 2 == 0 || rotation.galois >= 2 * context.n()) {
        fail(what + ", Galois element", "an odd number below " + std::to_string(2 * context.n()),
             std::to_string(rotation.galois));
    }
    if (rotation.key < 0) {
        if (rotation.key == -1 && rotation.galois == 1) return;
        fail(what + ", key", "a key", std::to_string(rotation.key));
    }
    check_index(what + ", key", rotation.key, steps.keys.size() / pairs);
    for (std::size_t p = 0; p < pairs; ++p) {
        const int made_for = steps.keys[static_cast<std::size_t>(rotation.key) * pairs + p].limbs;
        if (made_for < limbs) {
            fail(what + ", key", "a key for at least " + std::to_string(limbs) + " limbs",
                 std::to_string(made_for));
        }
    }
}

void check(const Context& context, const GiantSteps& steps) {
    if (steps.sources.empty()) fail("sources", "at least one ciphertext", "none");
    const int limbs = steps.sources.front().limbs, components = steps.sources.front().components;
    context.check_limbs(limbs);
    if (limbs < 2) fail("limbs", "at least 2 for a rescale", std::to_string(limbs));
    if (context.num_p() == 0) fail("giant steps", "a context with special primes", "none");
    for (const CiphertextView& source : steps.sources) {
        if (source.components % 2 != 0 || source.components != components) {
            fail("sources", "an even number of components, that of all sources",
                 std::to_string(source.components));
        }
        if (source.limbs != limbs) {
            fail("sources", std::to_string(limbs) + " limbs", std::to_string(source.limbs));
        }
    }
    const std::size_t pairs = pairs_of(steps);
    if (steps.keys.size() % pairs != 0) {
        fail("keys", "a multiple of " + std::to_string(pairs), std::to_string(steps.keys.size()));
    }
    bool has_key = false;
    for (std::size_t b = 0; b < steps.babies.size(); ++b) {
        check_rotation(context, steps, steps.babies[b], "baby step " + std::to_string(b));
        has_key = has_key || steps.babies[b].key >= 0;
    }
    if (!has_key) fail("baby steps", "one with a key", "none");
    if (steps.giants.empty()) fail("giant steps", "one at least", "none");
    for (std::size_t g = 0; g < steps.giants.size(); ++g) {
        const std::string what = "giant step " + std::to_string(g);
        check_rotation(context, steps, steps.giants[g].rotation, what);
        for (const BabyTerm& term : steps.giants[g].terms) {
            check_index(what + ", baby step", term.baby, steps.babies.size());
            check_index(what + ", plaintext", term.plaintext, steps.plaintexts.size());
            const FactorView& plaintext = steps.plaintexts[static_cast<std::size_t>(term.plaintext)];
            if (plaintext.limbs < limbs) {
                fail(what + ", plaintext", "at least " + std::to_string(limbs) + " q limbs",
                     std::to_string(plaintext.limbs));
            }
            if (plaintext.repeats != steps.plaintexts.front().repeats) {
                fail(what + ", plaintext", "as many words as the first one has", "others");
            }
        }
    }
}

// Every baby step of every two components of every source as an output of one term, those of the first two first.
TransformPlan plan_of_babies(const Context& context, const GiantSteps& sums) {
    TransformPlan plan;
    const std::size_t pairs = pairs_of(sums);
    plan.context = &context;
    plan.limbs = sums.sources.front().limbs;
    plan.outputs = static_cast<int>(sums.sources.size() * pairs * sums.babies.size());
    plan.extended = true;
    add_sources(plan, sums.sources);
    plan.first_term.push_back(0);
    for (std::size_t s = 0; s < plan.sources.size(); ++s) {
        PlannedSource& source = plan.sources[s];
        const std::size_t p = s % pairs;
        source.decomposed = true;
        for (const Rotation& baby : sums.babies) {
            PlannedTerm term;
            term.source = static_cast<int>(s);
            if (baby.key >= 0) {
                term.key = &sums.keys[static_cast<std::size_t>(baby.key) * pairs + p];
            } else if (p + 1 == pairs) {
                source.parts[1] = source.switched.view;
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
    BabyWorker(const TransformPlan& plan, const Decompositions& decompositions, const GiantSteps& sums,
               int capacity)
        : plan_(&plan),
          sums_(&sums),
          chunk_(std::min(kChunkWords, plan.context->n())),
          limbs_(plan, decompositions, capacity),
          rotated_(Buffer::workspace_of_words(2 * sums.babies.size() * chunk_)) {
        for (int o = 0; o < plan.outputs; ++o) rotations_.emplace_back(plan);
    }

    void convert(const int* limbs, int count) { limbs_.convert(limbs, count, 0); }

    // target(s, o, c): where component c of an output of a source goes at that limb, number t of those that were converted.
    template <typename Target>
    void run(int limb, int t, const Target& target) {
        limbs_.transform(limb, t);
        const std::size_t babies = sums_->babies.size();
        for (std::size_t r = 0; r < rotations_.size(); ++r) rotations_[r].start(limbs_, r, limb, t);
        for (std::size_t begin = 0; begin < plan_->context->n(); begin += chunk_) {
            for (std::size_t s = 0; s < plan_->sources.size(); ++s) {  // what they read is in a cache then
                for (std::size_t b = 0; b < babies; ++b) {
                    if (vanishes(b)) continue;
                    rotations_[s * babies + b].run_part(limb, begin, begin + chunk_, rotated(b, 0),
                                                        rotated(b, 1));
                }
                for (std::size_t o = 0; o < sums_->giants.size(); ++o) add_up(limb, o, s, begin, target);
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
    void add_up(int limb, std::size_t o, std::size_t s, std::size_t begin, const Target& target) {
        factors_.clear();
        for (std::vector<const std::uint64_t*>& list : pointers_) list.clear();
        for (const BabyTerm& term : sums_->giants[o].terms) {
            const std::size_t b = static_cast<std::size_t>(term.baby);
            if (vanishes(b)) continue;
            const FactorView& plaintext = sums_->plaintexts[static_cast<std::size_t>(term.plaintext)];
            factors_.push_back(plaintext.at(*plan_->context, limb, begin));
            for (std::size_t c = 0; c < 2; ++c) pointers_[c].push_back(rotated(b, c));
        }
        const std::size_t pairs = pairs_of(*sums_), source = s / pairs, c = s % pairs * 2;
        std::uint64_t* const sum[2] = {target(source, o, c) + begin, target(source, o, c + 1) + begin};
        if (factors_.empty()) {
            for (std::uint64_t* const words : sum) std::fill_n(words, chunk_, std::uint64_t{0});
            return;
        }
        const Modulus& m = plan_->context->modulus(limb);
        kernels().multiply_plain_sum(sum[0], sum[1], factors_.data(), halves_of(m.bits),
                                     sums_->plaintexts.front().repeats, pointers_[0].data(),
                                     pointers_[1].data(), factors_.size(), false, chunk_, m);
    }

    const TransformPlan* plan_;
    const GiantSteps* sums_;
    std::size_t chunk_;
    ExtendedLimbs limbs_;
    std::vector<TermSum> rotations_;
    Buffer rotated_;                                 // [baby][component][chunk]
    std::vector<const void*> factors_;               // of a sum
    std::vector<const std::uint64_t*> pointers_[2];  // both components of what they multiply
};

// The sums of baby steps modulo Q P: of every source, giant step and component all limbs, the special ones last.
class Sums {
  public:
    Sums(const Context& context, const GiantSteps& steps)
        : n_(context.n()),
          limbs_(static_cast<std::size_t>(steps.sources.front().limbs)),
          rows_(limbs_ + static_cast<std::size_t>(context.num_p())),
          giants_(steps.giants.size()),
          components_(2 * pairs_of(steps)),
          words_(Buffer::of_words(steps.sources.size() * giants_ * components_ * rows_ * n_)) {}

    std::size_t components() const { return components_; }
    std::uint64_t* row(std::size_t source, std::size_t giant, std::size_t component, std::size_t row) const {
        return words_.words() + (((source * giants_ + giant) * components_ + component) * rows_ + row) * n_;
    }
    PolynomialView view(std::size_t source, std::size_t giant, std::size_t component) const {
        return {row(source, giant, component, 0), static_cast<std::ptrdiff_t>(n_)};
    }

  private:
    std::size_t n_, limbs_, rows_, giants_, components_;
    Buffer words_;
};

void run_babies(const Context& context, const GiantSteps& steps, const Sums& sums) {
    const TransformPlan plan = plan_of_babies(context, steps);
    const Decompositions decompositions = decompose(plan);
    const std::size_t kept = static_cast<std::size_t>(plan.kept);
    const std::vector<int>& special = plan.dropped->sources();
    std::vector<int> limbs = special;
    limbs.resize(special.size() + kept);
    std::iota(limbs.begin() + static_cast<std::ptrdiff_t>(special.size()), limbs.end(), 0);

    const int group =
        limbs_per_group(context.n(), static_cast<int>(limbs.size()), std::min(context.alpha(), plan.limbs));
    const std::size_t step = static_cast<std::size_t>(group);
    const std::size_t tasks = (limbs.size() + step - 1) / step;
    const int threads = threads_for(tasks);
    std::vector<BabyWorker> workers;
    for (int thread = 0; thread < threads; ++thread) workers.emplace_back(plan, decompositions, steps, group);
    parallel_for(tasks, threads, [&](std::size_t task, int thread) {
        BabyWorker& worker = workers[static_cast<std::size_t>(thread)];
        const std::size_t first = task * step, end = std::min(first + step, limbs.size());
        worker.convert(&limbs[first], static_cast<int>(end - first));
        for (std::size_t i = first; i < end; ++i) {
            const std::size_t row = i < special.size() ? kept + i : i - special.size();
            worker.run(limbs[i], static_cast<int>(i - first),
                       [&](std::size_t s, std::size_t g, std::size_t c) { return sums.row(s, g, c, row); });
        }
    });

    // What giant steps switch is divided by P.
    const std::size_t last = sums.components() - 1;
    for (std::size_t s = 0; s < steps.sources.size(); ++s) {
        std::vector<const std::uint64_t*> low, high;
        std::vector<std::uint64_t*> results;
        int count = 0;
        for (std::size_t g = 0; g < steps.giants.size(); ++g) {
            if (steps.giants[g].rotation.key < 0) continue;
            ++count;
            for (std::size_t i = 0; i < special.size(); ++i) low.push_back(sums.row(s, g, last, kept + i));
            for (std::size_t i = 0; i < kept; ++i) results.push_back(sums.row(s, g, last, i));
        }
        high.assign(results.begin(), results.end());
        if (count > 0) {
            mod_down(context, *plan.dropped, count, plan.kept, low.data(), high.data(), results.data());
        }
    }
}

// Of one source: its digits at all limbs of a group are alive together.
void run_giants(const Context& context, const GiantSteps& steps, const Sums& sums, std::size_t s,
                std::uint64_t* out) {
    TransformPlan plan;
    const std::size_t pairs = pairs_of(steps);
    plan.context = &context;
    plan.limbs = steps.sources[s].limbs;
    plan.outputs = static_cast<int>(pairs);
    plan.extended = true;
    plan.first_term.push_back(0);
    for (std::size_t p = 0; p < pairs; ++p) {
        const bool last = p + 1 == pairs;
        for (std::size_t g = 0; g < steps.giants.size(); ++g) {
            const Rotation& rotation = steps.giants[g].rotation;
            const bool switches = rotation.key >= 0;
            PlannedSource source;
            source.parts[0] = sums.view(s, g, 2 * p);
            if (!last || !switches) source.parts[1] = sums.view(s, g, 2 * p + 1);
            source.switched = {sums.view(s, g, sums.components() - 1), nullptr};
            source.decomposed = switches;
            source.keeps_second = !last;
            source.extended = true;
            PlannedTerm term;
            term.source = static_cast<int>(plan.sources.size());
            if (switches) term.key = &steps.keys[static_cast<std::size_t>(rotation.key) * pairs + p];
            if (rotation.galois != 1) term.permutation = context.basis().permutation(rotation.galois);
            plan.sources.push_back(source);
            plan.terms.push_back(term);
        }
        plan.first_term.push_back(plan.terms.size());
    }
    find_alike(plan);
    finish_plan(plan, true);
    std::vector<std::uint64_t*> outputs;
    for (std::size_t p = 0; p < pairs; ++p) {
        outputs.push_back(out + p * 2 * static_cast<std::size_t>(plan.kept) * context.n());
    }
    run_limb_order(plan, outputs.data());
}

}  // namespace

void run_giant_steps(const Context& context, const GiantSteps& steps, std::uint64_t* const* out) {
    check(context, steps);
    const Sums sums(context, steps);
    run_babies(context, steps, sums);
    for (std::size_t s = 0; s < steps.sources.size(); ++s) run_giants(context, steps, sums, s, out[s]);
}

}  // namespace cipherblas
