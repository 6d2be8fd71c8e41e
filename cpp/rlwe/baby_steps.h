// Rotations of ciphertexts that share their digits, modulo Q P: each is made chunk by chunk where it is read, and never stored.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
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

// use(worker, limb, row, source, begin) for all limbs, which are the rows of a sum modulo Q P, the special ones last.
template <typename Use>
void for_each_chunk(const TransformPlan& plan, std::size_t babies, std::size_t most, const Use& use) {
    const Context& context = *plan.context;
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
    for (int thread = 0; thread < threads; ++thread) {
        workers.emplace_back(plan, decompositions, babies, most, group);
    }
    parallel_for(tasks, threads, [&](std::size_t task, int thread) {
        BabyWorker& worker = workers[static_cast<std::size_t>(thread)];
        const std::size_t first = task * step, end = std::min(first + step, limbs.size());
        worker.convert(&limbs[first], static_cast<int>(end - first));
        for (std::size_t i = first; i < end; ++i) {
            const std::size_t row = i < special.size() ? kept + i : i - special.size();
            worker.run(limbs[i], static_cast<int>(i - first), [&](std::size_t source, std::size_t begin) {
                use(worker, limbs[i], row, source, begin);
            });
        }
    });
}

}  // namespace cipherblas
