// The limb-outer order: MO-HLT of FAME (Algorithm 3), with hoisting and one ModDown per output.
//
// Phase A makes the limbs that ModDown drops: for each, the digits of all sources, then for each output the sum of
// all its terms, and the inverse NTT. Phase B makes each remaining limb in the same way and at once subtracts the
// converted dropped part and divides. Only coefficients of dropped limbs are kept between limbs.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>

#include "ring/threads.h"
#include "rlwe/mod_down.h"
#include "rlwe/transform_plan.h"

namespace cipherblas {
namespace {

constexpr std::size_t kDroppedBytes = std::size_t{256} << 20;  // of one block of outputs
constexpr std::size_t kEncodedTerms = 8;  // plaintexts given by coefficients that are in NTT form at one time

using Decompositions = std::vector<std::optional<Decomposition>>;

// The workspace of one thread: everything about a group of limbs that does not depend on the output.
class LimbGroup {
  public:
    LimbGroup(const TransformPlan& plan, const Decompositions& decompositions, int capacity)
        : plan_(&plan), decompositions_(&decompositions) {
        for (const auto& decomposition : decompositions) {
            first_digit_.push_back(digits_);
            if (decomposition) digits_ += static_cast<std::size_t>(decomposition->digits());
        }
        const std::size_t n = plan.context->n();
        const std::size_t limbs = static_cast<std::size_t>(capacity);
        digit_limbs_.resize(digits_ * limbs);
        parts_.resize(limbs);
        digit_scratch_ = Buffer::of_words(digits_ * limbs * n);
        part_scratch_ = Buffer::of_words(part_limbs(plan) * limbs * n);
        converted_ = Buffer::of_words(2 * limbs * n);
        for (const PlannedTerm& term : plan.terms) {
            if (term.plaintext != nullptr && term.plaintext->coefficients != nullptr) encodes_ = true;
        }
        if (encodes_) encode_scratch_ = Buffer::of_words((kEncodedTerms + 2) * n);
    }

    // Makes the digits (ModUp, NTT) and scaled parts of all sources at the limbs `targets`.
    void load(const int* targets, int count) {
        const std::size_t n = plan_->context->n();
        count_ = static_cast<std::size_t>(count);
        for (std::size_t s = 0; s < decompositions_->size(); ++s) {
            const auto& decomposition = (*decompositions_)[s];
            if (!decomposition) continue;
            decomposition->extend(targets, count, digit_scratch_.words() + first_digit_[s] * count_ * n,
                                  digit_limbs_.data() + first_digit_[s] * count_);
        }
        for (int t = 0; t < count; ++t) {
            scale_parts(*plan_, targets[t],
                        part_scratch_.words() + part_limbs(*plan_) * static_cast<std::size_t>(t) * n,
                        parts_[static_cast<std::size_t>(t)]);
        }
    }

    // Sum of the terms of one output at limb `limb`, which is number t of the group.
    void accumulate(std::size_t output, int t, int limb, std::uint64_t* out0, std::uint64_t* out1) {
        const Kernels& k = kernels();
        const std::size_t n = plan_->context->n();
        const Modulus& m = plan_->context->modulus(limb);
        const std::size_t begin = plan_->first_term[output];
        const std::size_t end = plan_->first_term[output + 1];
        const std::size_t step = encodes_ ? kEncodedTerms : end - begin;
        bool first = true;
        for (std::size_t from = begin; from < end; from += step) {
            gather(from, from + step < end ? from + step : end, t, limb);
            if (terms_.empty()) continue;
            if (first) {
                k.accumulate_terms(out0, out1, terms_.data(), terms_.size(), n, m);
                first = false;
            } else {
                std::uint64_t* const partial = encode_scratch_.words() + kEncodedTerms * n;
                k.accumulate_terms(partial, partial + n, terms_.data(), terms_.size(), n, m);
                k.add(out0, out0, partial, n, m);
                k.add(out1, out1, partial + n, n, m);
            }
        }
        if (first) {
            std::memset(out0, 0, n * sizeof(std::uint64_t));
            std::memset(out1, 0, n * sizeof(std::uint64_t));
        }
    }

    std::uint64_t* converted(int component, int t) const {
        return converted_.words() +
               (static_cast<std::size_t>(component) * parts_.size() + static_cast<std::size_t>(t)) *
                   plan_->context->n();
    }

  private:
    // The kernel's view of terms [from, to) at one limb.
    void gather(std::size_t from, std::size_t to, int t, int limb) {
        terms_.clear();
        keys_.clear();
        keys_.reserve((to - from) * 2 * digits_);  // pointers into it stay valid
        std::size_t encoded = 0;
        const bool special = plan_->is_special(limb);
        for (std::size_t i = from; i < to; ++i) {
            const PlannedTerm& term = plan_->terms[i];
            if (special && term.key == nullptr) continue;  // a multiple of P
            const std::size_t source = static_cast<std::size_t>(term.source);
            RotationTerm r;
            r.permutation = term.permutation.get();
            const ScaledParts& parts = parts_[static_cast<std::size_t>(t)][source];
            r.add0 = parts.parts[0];
            if (term.key == nullptr || plan_->sources[source].keeps_second) r.add1 = parts.parts[1];
            if (term.key != nullptr) {
                const int digits = (*decompositions_)[source]->digits();
                r.digits = digit_limbs_.data() + first_digit_[source] * count_ +
                           static_cast<std::size_t>(t) * static_cast<std::size_t>(digits);
                r.digit_count = digits;
                for (int c = 0; c < 2; ++c) {
                    (c == 0 ? r.key0 : r.key1) = keys_.data() + keys_.size();
                    for (int d = 0; d < digits; ++d) keys_.push_back(term.key->limb(d, c, limb));
                }
            }
            if (term.plaintext != nullptr) {
                std::uint64_t* scratch = nullptr;
                if (term.plaintext->coefficients != nullptr) {
                    scratch = encode_scratch_.words() + encoded++ * plan_->context->n();
                }
                r.plaintext = plaintext_limb(*plan_, *term.plaintext, limb, scratch);
            }
            terms_.push_back(r);
        }
    }

    const TransformPlan* plan_;
    const Decompositions* decompositions_;
    std::size_t digits_ = 0;                  // of all sources together
    std::vector<std::size_t> first_digit_;    // by source
    std::size_t count_ = 0;                   // limbs of the present group
    std::vector<const std::uint64_t*> digit_limbs_;  // [source][limb of the group][digit]
    std::vector<std::vector<ScaledParts>> parts_;    // [limb of the group][source]
    Buffer digit_scratch_, part_scratch_, converted_, encode_scratch_;
    bool encodes_ = false;
    std::vector<RotationTerm> terms_;
    std::vector<const std::uint64_t*> keys_;
};

// Tasks of one phase: groups of limbs, and where there are few of these also parts of the outputs.
struct Partition {
    Partition(std::size_t n, std::vector<int> all, std::size_t first_output, std::size_t output_count)
        : limbs(std::move(all)), first(first_output), outputs(output_count) {
        group = static_cast<std::size_t>(limbs_per_group(n, static_cast<int>(limbs.size())));
        groups = (limbs.size() + group - 1) / group;
        const std::size_t threads = static_cast<std::size_t>(thread_count());
        parts = groups == 0 || groups >= threads ? 1 : (threads + groups - 1) / groups;
        if (parts > outputs) parts = outputs;
    }
    std::size_t tasks() const { return groups * parts; }

    std::vector<int> limbs;
    std::size_t first, outputs;
    std::size_t group = 1, groups = 0, parts = 1;
};

// Calls body(workspace, limbs, count, first limb number, first output, last output) for every task.
template <typename Body>
void for_each_task(const Partition& p, std::vector<LimbGroup>& workspaces, const Body& body) {
    parallel_for(p.tasks(), std::min(threads_for(p.tasks()), static_cast<int>(workspaces.size())),
                 [&](std::size_t task, int thread) {
        const std::size_t begin = task / p.parts * p.group;
        const std::size_t count = begin + p.group < p.limbs.size() ? p.group : p.limbs.size() - begin;
        const std::size_t part = task % p.parts;
        LimbGroup& workspace = workspaces[static_cast<std::size_t>(thread)];
        workspace.load(p.limbs.data() + begin, static_cast<int>(count));
        body(workspace, p.limbs.data() + begin, static_cast<int>(count), begin, p.first + part * p.outputs / p.parts,
             p.first + (part + 1) * p.outputs / p.parts);
    });
}

void run_block(const TransformPlan& plan, std::vector<LimbGroup>& workspaces, std::size_t first, std::size_t outputs,
               std::uint64_t* const* out) {
    const Kernels& k = kernels();
    const Context& context = *plan.context;
    const std::size_t n = context.n();
    const std::size_t kept = static_cast<std::size_t>(plan.kept);
    const BaseConversion* const conversion = plan.dropped;
    const std::size_t dropped = conversion == nullptr ? 0 : static_cast<std::size_t>(conversion->count());
    const Buffer coefficients = Buffer::of_words(outputs * 2 * dropped * n);
    const Buffer overflow = Buffer::of_words(dropped == 0 ? 0 : outputs * 2 * n);
    const auto dropped_limb = [&](std::size_t output, std::size_t component, std::size_t i) {
        return coefficients.words() + (((output - first) * 2 + component) * dropped + i) * n;
    };
    const auto dropped_limbs = [&](std::size_t output, std::size_t component, std::size_t offset) {
        std::array<const std::uint64_t*, BaseConversion::kMaxSources> y{};
        for (std::size_t i = 0; i < dropped; ++i) y[i] = dropped_limb(output, component, i) + offset;
        return y;
    };

    if (conversion != nullptr) {  // phase A
        const Partition partition(n, conversion->sources(), first, outputs);
        for_each_task(partition, workspaces,
                      [&](LimbGroup& workspace, const int* limbs, int count, std::size_t number, std::size_t begin,
                          std::size_t end) {
                          for (int t = 0; t < count; ++t) {
                              const std::size_t i = number + static_cast<std::size_t>(t);
                              const std::uint64_t factor = conversion->digit_factor(static_cast<int>(i));
                              for (std::size_t o = begin; o < end; ++o) {
                                  std::uint64_t* const y[2] = {dropped_limb(o, 0, i), dropped_limb(o, 1, i)};
                                  workspace.accumulate(o, t, limbs[t], y[0], y[1]);
                                  for (std::uint64_t* const x : y) {
                                      k.mul_scalar(x, x, factor, n, context.modulus(limbs[t]));
                                      k.intt(x, context.table(limbs[t]));
                                  }
                              }
                          }
                      });
        parallel_rows(outputs * 2, n, [&](std::size_t row, std::size_t offset, std::size_t count) {
            conversion->overflow(overflow.words() + row * n + offset,
                                 dropped_limbs(first + row / 2, row % 2, offset).data(), count);
        });
    }

    std::vector<int> kept_limbs(kept);  // phase B
    std::iota(kept_limbs.begin(), kept_limbs.end(), 0);
    const Partition partition(n, std::move(kept_limbs), first, outputs);
    for_each_task(partition, workspaces,
                  [&](LimbGroup& workspace, const int* limbs, int count, std::size_t, std::size_t begin,
                      std::size_t end) {
                      for (std::size_t o = begin; o < end; ++o) {
                          std::array<std::vector<std::uint64_t*>, 2> converted;
                          for (int c = 0; conversion != nullptr && c < 2; ++c) {
                              const std::size_t component = static_cast<std::size_t>(c);
                              for (int t = 0; t < count; ++t) {
                                  converted[component].push_back(workspace.converted(c, t));
                              }
                              conversion->convert(converted[component].data(), limbs, count,
                                                  dropped_limbs(o, component, 0).data(),
                                                  overflow.words() + ((o - first) * 2 + component) * n, n);
                          }
                          for (int t = 0; t < count; ++t) {
                              const std::size_t limb = static_cast<std::size_t>(limbs[t]);
                              std::uint64_t* const x[2] = {out[o] + limb * n, out[o] + (kept + limb) * n};
                              workspace.accumulate(o, t, limbs[t], x[0], x[1]);
                              for (int c = 0; conversion != nullptr && c < 2; ++c) {
                                  std::uint64_t* const low = workspace.converted(c, t);
                                  k.ntt(low, context.table(limbs[t]));
                                  k.sub_mul_scalar(x[c], x[c], low, conversion->inverse(limbs[t]), n,
                                                   context.modulus(limbs[t]));
                              }
                          }
                      }
                  });
}

}  // namespace

void run_limb_order(const TransformPlan& plan, std::uint64_t* const* out) {
    const Context& context = *plan.context;
    const std::size_t n = context.n();
    Decompositions decompositions(plan.sources.size());
    for (std::size_t s = 0; s < plan.sources.size(); ++s) {
        if (plan.sources[s].decomposed) decompositions[s].emplace(context, plan.sources[s].switched, plan.limbs);
    }
    const std::size_t outputs = static_cast<std::size_t>(plan.outputs);
    const std::size_t dropped = plan.dropped == nullptr ? 0 : static_cast<std::size_t>(plan.dropped->count());
    std::size_t block = outputs;
    if (dropped > 0) block = kDroppedBytes / (2 * (dropped + 1) * n * sizeof(std::uint64_t));
    if (block < 1) block = 1;

    const int capacity = limbs_per_group(n, plan.limbs + context.num_p());
    std::vector<LimbGroup> workspaces;
    const int threads = threads_for(static_cast<std::size_t>(thread_count()));
    for (int thread = 0; thread < threads; ++thread) workspaces.emplace_back(plan, decompositions, capacity);
    for (std::size_t first = 0; first < outputs; first += block) {
        run_block(plan, workspaces, first, first + block < outputs ? block : outputs - first, out);
    }
}

}  // namespace cipherblas
