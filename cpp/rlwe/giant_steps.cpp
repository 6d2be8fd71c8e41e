#include "rlwe/giant_steps.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "ring/kernels.h"
#include "rlwe/mod_down.h"

namespace cipherblas {
namespace {

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

// The sum of one giant step at a chunk of a limb, from two components of a source that are rotated by all baby steps.
void add_up(const GiantSteps& steps, const BabyWorker& worker, const GiantStep& giant, int limb,
            std::size_t begin, std::uint64_t* sum0, std::uint64_t* sum1) {
    const Context& context = worker.context();
    std::vector<const void*> factors;
    std::vector<const std::uint64_t*> pointers[2];
    for (const BabyTerm& term : giant.terms) {
        const std::size_t b = static_cast<std::size_t>(term.baby);
        if (worker.vanishes(b)) continue;
        const FactorView& plaintext = steps.plaintexts[static_cast<std::size_t>(term.plaintext)];
        factors.push_back(plaintext.at(context, limb, begin));
        for (std::size_t c = 0; c < 2; ++c) pointers[c].push_back(worker.rotated(b, c));
    }
    if (factors.empty()) {
        for (std::uint64_t* const words : {sum0, sum1}) {
            std::fill_n(words, worker.chunk(), std::uint64_t{0});
        }
        return;
    }
    const Modulus& m = context.modulus(limb);
    kernels().multiply_plain_sum(sum0, sum1, factors.data(), halves_of(m.bits),
                                 steps.plaintexts.front().repeats, pointers[0].data(), pointers[1].data(),
                                 factors.size(), false, worker.chunk(), m);
}

void run_babies(const Context& context, const GiantSteps& steps, const Sums& sums) {
    const TransformPlan plan = plan_of_babies(context, steps.sources, steps.babies, steps.keys);
    const std::size_t pairs = pairs_of(steps);
    std::vector<int> rows = special_rows(plan);
    for (const int row : kept_rows(plan)) rows.push_back(row);
    for_each_chunk(
        plan, decompose(plan), rows, steps.babies.size(), context.n(), [](int, int) {},
        [&](const BabyWorker& worker, int, int limb, std::size_t row, std::size_t s, std::size_t begin) {
            const std::size_t source = s / pairs, c = s % pairs * 2;
            for (std::size_t g = 0; g < steps.giants.size(); ++g) {
                add_up(steps, worker, steps.giants[g], limb, begin, sums.row(source, g, c, row) + begin,
                       sums.row(source, g, c + 1, row) + begin);
            }
        });

    // What giant steps switch is divided by P.
    const std::size_t last = sums.components() - 1, kept = static_cast<std::size_t>(plan.kept);
    const std::vector<int>& special = plan.dropped->sources();
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
