// The workspace of one thread in the limb-outer order of a linear transform.
#pragma once
#include <vector>

#include "rlwe/extended_limbs.h"

namespace cipherblas {

class LimbWorker {
  public:
    // Room for so many limbs that are converted together, the first `dropped` of them ones that ModDown drops.
    LimbWorker(const TransformPlan& plan, const Decompositions& decompositions, int capacity,
               int dropped = 0);

    int capacity() const { return capacity_; }

    // ModUp of a group of limbs, which are its numbers t = 0, 1, ...; left to the sum where that goes over the digits in
    // several ranges.
    void convert(const int* limbs, int count);
    // Two limbs per kept limb of a group, for what ModDown subtracts, negated.
    std::uint64_t* low(int t, int component) const {
        return low_.words() + static_cast<std::size_t>(2 * (t - dropped_) + component) * n_;
    }

    // Room for the two components of a sum.
    std::uint64_t* sums(int component) const {
        return sums_.words() + static_cast<std::size_t>(component) * n_;
    }

    // The sum of an output at number t of the group, in x[0] and x[1]. transforms: the NTT of its digits is not done yet.
    void sum(std::size_t output, int limb, int t, bool transforms, std::uint64_t* const* x);
    // The same followed by ModDown: x = (sum + low) / D. bypass: x goes past the caches.
    void sum_and_divide(std::size_t output, int limb, int t, bool transforms, bool bypass,
                        std::uint64_t* const* x);

  private:
    // Part by part, as long as a part of the digits, of the sum and of the result stays in the inner caches:
    // target(part, sum) says where the sum goes, finish(part, sum) follows it.
    template <typename Target, typename Finish>
    void run_parts(std::size_t output, int limb, int t, bool transforms, const Target& target,
                   const Finish& finish);
    // The same with a few digits at a time.
    template <typename Target, typename Finish>
    void run_ranges(int limb, const Target& target, const Finish& finish);
    bool has_one_permutation() const;
    int source_part(int part) const;
    bool cuts() const { return range_ < limbs_.all().size(); }
    void note_upcoming(int part);
    void note_keys(int part, DigitRange range);

    const TransformPlan* plan_;
    std::size_t n_;
    int capacity_, dropped_;
    int parts_;
    std::size_t part_words_;
    int range_;  // digits at one time
    ExtendedLimbs limbs_;
    DigitParts apart_;
    TermSum sum_;
    Buffer low_;       // [t][component]
    Buffer low_part_;  // [component], of one part
    Buffer sums_;      // of one limb
    std::vector<const std::uint64_t*> upcoming_;
};

}  // namespace cipherblas
