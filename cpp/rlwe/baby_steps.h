// Rotations of ciphertexts that share their digits, modulo Q P: each is made chunk by chunk where it is read, and never stored.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "ring/pool.h"
#include "ring/threads.h"
#include "rlwe/extended_limbs.h"
#include "rlwe/mod_down.h"

namespace cipherblas {

// key: -1 for Galois element 1 alone.
struct Rotation {
    std::uint64_t galois = 1;
    int key = -1;
};

// Every rotation of every two components of every source as an output of one term, those of the first two first. Keys are as
// those of Transform.
TransformPlan plan_of_babies(const Context& context, const std::vector<CiphertextView>& sources,
                             const std::vector<Rotation>& babies, const std::vector<SwitchingKeyView>& keys);

// The workspace of one thread: limbs that are converted together, and a chunk of every rotation.
class BabyWorker {
  public:
    // most: words of a chunk.
    BabyWorker(const TransformPlan& plan, const Decompositions& decompositions, std::size_t babies,
               std::size_t most, int capacity);

    // The words of a chunk, where there may be so many.
    static std::size_t words_of_chunk(std::size_t n, std::size_t most);
    const Context& context() const { return *plan_->context; }
    std::size_t chunk() const { return chunk_; }
    // A multiple of P, at a special limb: of all components alike.
    bool vanishes(std::size_t baby) const { return rotations_[baby].terms().empty(); }
    // The chunk of a component of the source that is there.
    std::uint64_t* rotated(std::size_t baby, std::size_t component) const {
        return rotated_.words() + (2 * baby + component) * chunk_;
    }

    void convert(const int* limbs, int count) { limbs_.convert(limbs, count, 0); }

    // use(source, begin): with all rotations of a source there, at the limb that is number t of those that were converted.
    template <typename Use>
    void run(int limb, int t, const Use& use) {
        start(limb, t);
        for (std::size_t begin = 0; begin < plan_->context->n(); begin += chunk_) {
            for (std::size_t s = 0; s < plan_->sources.size(); ++s) {  // what they read is in a cache then
                rotate(limb, s, begin);
                use(s, begin);
            }
        }
    }

  private:
    void start(int limb, int t);
    void rotate(int limb, std::size_t source, std::size_t begin);

    const TransformPlan* plan_;
    std::size_t babies_, chunk_;
    ExtendedLimbs limbs_;
    std::vector<TermSum> rotations_;
    Buffer rotated_;  // [baby][component][chunk]
};

// Rows of a sum modulo Q P, of which the special ones come last: those ones, or all others.
std::vector<int> special_rows(const TransformPlan& plan);
std::vector<int> kept_rows(const TransformPlan& plan);

// use(worker, thread, limb, row, source, begin) for all chunks of some rows; before(thread, limb) comes before those of a limb.
// There are at most threads_for(rows.size()) threads.
template <typename Before, typename Use>
void for_each_chunk(const TransformPlan& plan, const Decompositions& decompositions,
                    const std::vector<int>& rows, std::size_t babies, std::size_t most, const Before& before,
                    const Use& use) {
    const Context& context = *plan.context;
    std::vector<int> limbs;
    for (const int row : rows) limbs.push_back(row < plan.kept ? row : row - plan.kept + context.num_q());
    const int group =
        limbs_per_group(context.n(), static_cast<int>(limbs.size()), std::min(context.alpha(), plan.limbs));
    const std::size_t step = static_cast<std::size_t>(group);
    const std::size_t tasks = (limbs.size() + step - 1) / step;
    const int threads = threads_for(tasks);
    std::vector<BabyWorker> workers;
    for (int thread = 0; thread < threads; ++thread) {
        workers.emplace_back(plan, decompositions, babies, most, group);
    }
    parallel_for(tasks, threads, [&](std::size_t task, int thread) {
        BabyWorker& worker = workers[static_cast<std::size_t>(thread)];
        const std::size_t first = task * step, end = std::min(first + step, limbs.size());
        worker.convert(&limbs[first], static_cast<int>(end - first));
        for (std::size_t i = first; i < end; ++i) {
            before(thread, limbs[i]);
            worker.run(limbs[i], static_cast<int>(i - first), [&](std::size_t source, std::size_t begin) {
                use(worker, thread, limbs[i], static_cast<std::size_t>(rows[i]), source, begin);
            });
        }
    });
}

}  // namespace cipherblas
