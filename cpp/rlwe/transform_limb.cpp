// The limb-outer order: MO-HLT of FAME (Algorithm 3), with hoisting and one ModDown per output.
//
// Phase A makes the limbs that ModDown drops: for each, the digits of all sources, then for each output the sum of
// all its terms, and the inverse NTT. Phase B makes each remaining limb in the same way and at once adds the
// converted dropped part, which was negated, and divides. Only coefficients of dropped limbs are kept between limbs.
//
// In a small ring with many outputs the digits at all limbs fit the cache: they are made once, and output after output
// goes through both phases. In a large ring with a single output the conversions of both phases are one.
#include <algorithm>

#include "ring/kernels.h"
#include "ring/threads.h"
#include "rlwe/limb_worker.h"
#include "rlwe/mod_down.h"

namespace cipherblas {
namespace {

constexpr std::size_t kSingleBytes = std::size_t{256} << 20;  // digits at all limbs of a single output
constexpr std::size_t kResidentBytes = std::size_t{8} << 20;  // digits at all limbs, kept in cache

// Coefficients of the dropped limbs of some outputs, ready for base conversion.
class DroppedLimbs {
  public:
    // one_by_one: that is how the remaining limbs are made.
    DroppedLimbs(const TransformPlan& plan, std::size_t outputs, bool one_by_one)
        : plan_(&plan),
          n_(plan.context->n()),
          count_(plan.dropped == nullptr ? 0 : plan.dropped->sources().size()),
          one_by_one_(one_by_one) {
        if (count_ > 0) coefficients_ = Buffer::of_words(outputs * 2 * count_ * n_);
        if (count_ > 1 && one_by_one) overflow_ = Buffer::of_words(outputs * 2 * n_);
    }

    std::size_t count() const { return count_; }
    // Dropped limb i of one output from NTT form: its negative, which ModDown adds.
    void prepare(std::size_t output, std::size_t component, std::size_t i, const std::uint64_t* limb,
                 std::uint64_t* scratch) const {
        plan_->dropped->prepare(block(output, component), static_cast<int>(i), {limb, nullptr, true},
                                !one_by_one_, scratch);
    }
    // After all limbs of an output.
    bool counts_overflow() const { return overflow_.words() != nullptr; }
    void count_overflow(std::size_t output, std::size_t component, std::size_t offset,
                        std::size_t length) const {
        plan_->dropped->overflow(overflow(output, component) + offset, block(output, component), offset,
                                 length);
    }
    void convert(std::size_t output, std::size_t component, const int* targets, int count,
                 std::uint64_t* const* out) const {
        plan_->dropped->convert(out, targets, count, block(output, component), !one_by_one_,
                                counts_overflow() ? overflow(output, component) : nullptr);
    }

  private:
    std::uint64_t* block(std::size_t output, std::size_t component) const {
        return coefficients_.words() + (output * 2 + component) * count_ * n_;
    }
    std::uint64_t* overflow(std::size_t output, std::size_t component) const {
        return overflow_.words() + (output * 2 + component) * n_;
    }

    const TransformPlan* plan_;
    std::size_t n_, count_;
    bool one_by_one_;
    Buffer coefficients_, overflow_;
};

int group_size(const TransformPlan& plan, std::size_t limbs) {
    const int dropped = plan.dropped == nullptr ? 0 : plan.dropped->count();
    const int sources = std::max(dropped, std::min(plan.context->alpha(), plan.limbs));
    return limbs_per_group(plan.context->n(), static_cast<int>(limbs), sources);
}

// Tasks of one phase: groups of limbs, and where there are few of these also parts of the outputs.
struct Partition {
    // At most `capacity` limbs per group: what the workers have room for.
    Partition(const TransformPlan& plan, std::vector<int> all, std::size_t output_count, int capacity)
        : limbs(std::move(all)), outputs(output_count) {
        group = static_cast<std::size_t>(std::min(group_size(plan, limbs.size()), capacity));
        groups = (limbs.size() + group - 1) / group;
        const std::size_t threads = static_cast<std::size_t>(thread_count());
        parts = groups == 0 || groups >= threads ? 1 : (threads + groups - 1) / groups;
        parts = std::min(parts, outputs);
    }

    std::vector<int> limbs;
    std::size_t outputs, group = 1, groups = 0, parts = 1;
};

struct Task {
    const int* limbs;
    int count;
    std::size_t number;      // of the first limb in its phase
    std::size_t begin, end;  // outputs of the block
};

// Calls body(worker, task) for every task; the digits are converted.
template <typename Body>
void for_each_task(const Partition& p, std::vector<LimbWorker>& workers, const Body& body) {
    const std::size_t tasks = p.groups * p.parts;
    parallel_for(tasks, std::min(threads_for(tasks), static_cast<int>(workers.size())),
                 [&](std::size_t index, int thread) {
                     const std::size_t number = index / p.parts * p.group;
                     const std::size_t part = index % p.parts;
                     const Task task{p.limbs.data() + number,
                                     static_cast<int>(std::min(p.group, p.limbs.size() - number)), number,
                                     part * p.outputs / p.parts, (part + 1) * p.outputs / p.parts};
                     LimbWorker& worker = workers[static_cast<std::size_t>(thread)];
                     worker.convert(task.limbs, task.count);
                     body(worker, task);
                 });
}

// Outputs first .. first + outputs - 1.
void run_block(const TransformPlan& plan, std::vector<LimbWorker>& workers, std::size_t first,
               std::size_t outputs, std::uint64_t* const* out) {
    const std::size_t n = plan.context->n();
    const std::size_t kept = static_cast<std::size_t>(plan.kept);
    const DroppedLimbs dropped(plan, outputs, workers.front().capacity() == 1);
    if (dropped.count() > 0) {  // phase A
        const Partition partition(plan, plan.dropped->sources(), outputs, workers.front().capacity());
        for_each_task(partition, workers, [&](LimbWorker& worker, const Task& task) {
            for (int t = 0; t < task.count; ++t) {
                const std::size_t i = task.number + static_cast<std::size_t>(t);
                for (std::size_t o = task.begin; o < task.end; ++o) {
                    std::uint64_t* const x[2] = {worker.sums(0), worker.sums(1)};
                    worker.sum(first + o, task.limbs[t], t, o == task.begin, x);
                    for (std::size_t c = 0; c < 2; ++c) dropped.prepare(o, c, i, x[c], x[c]);
                }
            }
        });
        parallel_rows(dropped.counts_overflow() ? outputs * 2 : 0, n, dropped.count(),
                      [&](std::size_t row, std::size_t offset, std::size_t length) {
                          dropped.count_overflow(row / 2, row % 2, offset, length);
                      });
    }

    std::vector<int> kept_limbs(kept);  // phase B
    for (std::size_t j = 0; j < kept; ++j) kept_limbs[j] = plan.kept_limb(static_cast<int>(j));
    const Partition partition(plan, std::move(kept_limbs), outputs, workers.front().capacity());
    const bool bypass = bypasses_caches(2 * outputs * kept * n);
    for_each_task(partition, workers, [&](LimbWorker& worker, const Task& task) {
        std::vector<std::uint64_t*> low[2];
        for (int t = 0; t < task.count; ++t) {
            for (int c = 0; c < 2; ++c) low[c].push_back(worker.low(t, c));
        }
        for (std::size_t o = task.begin; o < task.end; ++o) {
            for (std::size_t c = 0; dropped.count() > 0 && c < 2; ++c) {
                dropped.convert(o, c, task.limbs, task.count, low[c].data());
            }
            for (int t = 0; t < task.count; ++t) {
                const std::size_t row = task.number + static_cast<std::size_t>(t);
                std::uint64_t* const x[2] = {out[first + o] + row * n, out[first + o] + (kept + row) * n};
                const bool transforms = o == task.begin;
                if (dropped.count() > 0) {
                    worker.sum_and_divide(first + o, task.limbs[t], t, transforms, bypass, x);
                } else {
                    worker.sum(first + o, task.limbs[t], t, transforms, x);
                }
            }
        }
    });
}

// The limbs that one worker makes: dropped ones and then kept ones.
struct Share {
    std::vector<int> limbs;
    std::size_t first_dropped = 0, dropped = 0;  // numbers among the dropped limbs
};

// A single output whose limbs are converted together: the digits at the dropped and the kept limbs are made at once, so
// that the coefficients are read once.
void run_single(const TransformPlan& plan, const Decompositions& decompositions, std::uint64_t* out) {
    const std::size_t n = plan.context->n();
    const std::size_t kept = static_cast<std::size_t>(plan.kept);
    const std::vector<int>& sources = plan.dropped->sources();
    const std::size_t shares_count = static_cast<std::size_t>(threads_for(kept));
    std::vector<Share> shares(shares_count);
    std::vector<LimbWorker> workers;
    for (std::size_t s = 0; s < shares_count; ++s) {
        Share& share = shares[s];
        // Rounded up where the kept limbs are rounded down.
        const auto dropped_before = [&](std::size_t number) {
            return (number * sources.size() + shares_count - 1) / shares_count;
        };
        share.first_dropped = dropped_before(s);
        share.dropped = dropped_before(s + 1) - share.first_dropped;
        for (std::size_t i = 0; i < share.dropped; ++i)
            share.limbs.push_back(sources[share.first_dropped + i]);
        for (std::size_t i = s * kept / shares_count; i < (s + 1) * kept / shares_count; ++i) {
            share.limbs.push_back(static_cast<int>(i));
        }
        workers.emplace_back(plan, decompositions, static_cast<int>(share.limbs.size()),
                             static_cast<int>(share.dropped));
    }
    const DroppedLimbs dropped(plan, 1, false);
    parallel_for(shares_count, [&](std::size_t s) {  // phase A
        const Share& share = shares[s];
        LimbWorker& worker = workers[s];
        worker.convert(share.limbs.data(), static_cast<int>(share.limbs.size()));
        for (std::size_t i = 0; i < share.dropped; ++i) {
            std::uint64_t* const x[2] = {worker.sums(0), worker.sums(1)};
            worker.sum(0, share.limbs[i], static_cast<int>(i), true, x);
            for (std::size_t c = 0; c < 2; ++c) dropped.prepare(0, c, share.first_dropped + i, x[c], x[c]);
        }
    });
    const bool bypass = bypasses_caches(2 * kept * n);
    parallel_for(shares_count, [&](std::size_t s) {  // phase B
        const Share& share = shares[s];
        LimbWorker& worker = workers[s];
        const int first = static_cast<int>(share.dropped), end = static_cast<int>(share.limbs.size());
        for (int c = 0; c < 2; ++c) {
            std::vector<std::uint64_t*> low;
            for (int t = first; t < end; ++t) low.push_back(worker.low(t, c));
            dropped.convert(0, static_cast<std::size_t>(c), share.limbs.data() + first, end - first,
                            low.data());
        }
        for (int t = first; t < end; ++t) {
            const std::size_t limb = static_cast<std::size_t>(share.limbs[static_cast<std::size_t>(t)]);
            std::uint64_t* const x[2] = {out + limb * n, out + (kept + limb) * n};
            worker.sum_and_divide(0, static_cast<int>(limb), t, true, bypass, x);
        }
    });
}

// The workspace of one thread in run_resident.
struct OutputWorker {
    explicit OutputWorker(const TransformPlan& plan)
        : sum(plan), dropped(plan, 1, true), low(Buffer::of_words(3 * plan.context->n())) {}
    TermSum sum;
    DroppedLimbs dropped;
    Buffer low;
};

// All digits at once, output by output. limbs: the dropped ones and then the kept ones.
void run_resident(const TransformPlan& plan, const Decompositions& decompositions,
                  const std::vector<int>& limbs, std::uint64_t* const* out) {
    const std::size_t n = plan.context->n();
    const std::size_t kept = static_cast<std::size_t>(plan.kept);
    ExtendedLimbs extended(plan, decompositions, static_cast<int>(limbs.size()));
    parallel_for(limbs.size(), [&](std::size_t t) {
        extended.convert(&limbs[t], 1, static_cast<int>(t));
        extended.transform(limbs[t], static_cast<int>(t));
    });
    const std::size_t outputs = static_cast<std::size_t>(plan.outputs);
    const int threads = threads_for(outputs);
    std::vector<OutputWorker> workers;
    for (int thread = 0; thread < threads; ++thread) workers.emplace_back(plan);
    parallel_for(outputs, threads, [&](std::size_t o, int thread) {
        OutputWorker& worker = workers[static_cast<std::size_t>(thread)];
        const DroppedLimbs& dropped = worker.dropped;
        for (std::size_t i = 0; i < dropped.count(); ++i) {
            std::uint64_t* const x[2] = {worker.low.words(), worker.low.words() + n};
            worker.sum.run(extended, o, limbs[i], static_cast<int>(i), x[0], x[1]);
            for (std::size_t c = 0; c < 2; ++c) dropped.prepare(0, c, i, x[c], worker.low.words() + 2 * n);
        }
        for (std::size_t c = 0; dropped.counts_overflow() && c < 2; ++c) dropped.count_overflow(0, c, 0, n);
        for (std::size_t j = 0; j < kept; ++j) {
            const int limb = limbs[dropped.count() + j];
            std::uint64_t* const x[2] = {out[o] + j * n, out[o] + (kept + j) * n};
            worker.sum.run(extended, o, limb, static_cast<int>(dropped.count() + j), x[0], x[1]);
            if (dropped.count() == 0) continue;
            std::uint64_t* const low[2] = {worker.low.words(), worker.low.words() + n};
            for (std::size_t c = 0; c < 2; ++c) dropped.convert(0, c, &limb, 1, &low[c]);
            const NttTable& table = plan.context->table(limb);
            const int parts = kernels().ntt_parts(table.log_n);
            for (int part = 0; part < parts; ++part) {
                const std::size_t begin =
                    static_cast<std::size_t>(part) * (n / static_cast<std::size_t>(parts));
                std::uint64_t* const y[2] = {x[0] + begin, x[1] + begin};
                std::uint64_t* const z[2] = {low[0] + begin, low[1] + begin};
                kernels().ntt_part_add_mul_scalar(y, y, z, z, 2, plan.dropped->inverse(limb), part, false, {},
                                                  table);
            }
        }
    });
}

}  // namespace

void run_limb_order(const TransformPlan& plan, std::uint64_t* const* out) {
    const std::size_t n = plan.context->n();
    const Decompositions decompositions = decompose(plan);
    std::vector<int> limbs;
    if (plan.dropped != nullptr) limbs = plan.dropped->sources();
    const std::size_t dropped = limbs.size();
    for (int i = 0; i < plan.kept; ++i) limbs.push_back(plan.kept_limb(i));
    if (plan.outputs > 1 && ExtendedLimbs::bytes(plan, static_cast<int>(limbs.size())) <= kResidentBytes) {
        run_resident(plan, decompositions, limbs, out);
        return;
    }

    if (plan.outputs == 1 && dropped > 0 && plan.extended && group_size(plan, limbs.size()) > 1 &&
        ExtendedLimbs::bytes(plan, static_cast<int>(limbs.size())) <= kSingleBytes) {
        run_single(plan, decompositions, out[0]);
        return;
    }

    const std::size_t outputs = static_cast<std::size_t>(plan.outputs);
    std::size_t block = outputs;
    if (dropped > 0) block = kDroppedBytes / (2 * (dropped + 1) * n * sizeof(std::uint64_t));
    block = std::max<std::size_t>(block, 1);
    const int capacity =
        std::max(group_size(plan, static_cast<std::size_t>(plan.kept)), group_size(plan, dropped));
    const int threads = threads_for(static_cast<std::size_t>(thread_count()));
    std::vector<LimbWorker> workers;
    for (int thread = 0; thread < threads; ++thread) workers.emplace_back(plan, decompositions, capacity);
    for (std::size_t first = 0; first < outputs; first += block) {
        run_block(plan, workers, first, std::min(block, outputs - first), out);
    }
}

}  // namespace cipherblas
