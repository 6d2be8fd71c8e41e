#include "rlwe/baby_steps.h"

#include <numeric>

namespace cipherblas {
namespace {

constexpr std::size_t kChunkWords = 1024;  // of every rotation: all of them stay in the core's own cache

}  // namespace

TransformPlan plan_of_babies(const Context& context, const std::vector<CiphertextView>& sources,
                             const std::vector<Rotation>& babies, const std::vector<SwitchingKeyView>& keys) {
    TransformPlan plan;
    const std::size_t pairs = static_cast<std::size_t>(sources.front().components / 2);
    plan.context = &context;
    plan.limbs = sources.front().limbs;
    plan.outputs = static_cast<int>(sources.size() * pairs * babies.size());
    plan.extended = true;
    add_sources(plan, sources);
    plan.first_term.push_back(0);
    for (std::size_t s = 0; s < plan.sources.size(); ++s) {
        PlannedSource& source = plan.sources[s];
        const std::size_t p = s % pairs;
        source.decomposed = true;
        for (const Rotation& baby : babies) {
            PlannedTerm term;
            term.source = static_cast<int>(s);
            if (baby.key >= 0) {
                term.key = &keys[static_cast<std::size_t>(baby.key) * pairs + p];
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

std::vector<int> special_rows(const TransformPlan& plan) {
    std::vector<int> rows(static_cast<std::size_t>(plan.context->num_p()));
    std::iota(rows.begin(), rows.end(), plan.kept);
    return rows;
}

std::vector<int> kept_rows(const TransformPlan& plan) {
    std::vector<int> rows(static_cast<std::size_t>(plan.kept));
    std::iota(rows.begin(), rows.end(), 0);
    return rows;
}

std::size_t BabyWorker::words_of_chunk(std::size_t n, std::size_t most) {
    return std::min({kChunkWords, most, n});
}

BabyWorker::BabyWorker(const TransformPlan& plan, const Decompositions& decompositions, std::size_t babies,
                       std::size_t most, int capacity)
    : plan_(&plan),
      babies_(babies),
      chunk_(words_of_chunk(plan.context->n(), most)),
      limbs_(plan, decompositions, capacity),
      rotated_(Buffer::workspace_of_words(2 * babies * chunk_)) {
    for (int o = 0; o < plan.outputs; ++o) rotations_.emplace_back(plan);
}

void BabyWorker::start(int limb, int t) {
    limbs_.transform(limb, t);
    for (std::size_t r = 0; r < rotations_.size(); ++r) rotations_[r].start(limbs_, r, limb, t);
}

void BabyWorker::rotate(int limb, std::size_t source, std::size_t begin) {
    for (std::size_t b = 0; b < babies_; ++b) {
        if (vanishes(b)) continue;
        rotations_[source * babies_ + b].run_part(limb, begin, begin + chunk_, rotated(b, 0), rotated(b, 1));
    }
}

}  // namespace cipherblas
