// Parameters of one scheme instance: q_0 .. q_L, the special primes p_0 .. p_{k-1} and the digits of key switching.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "ring/base_conversion.h"
#include "ring/basis.h"
#include "ring/packing.h"

namespace cipherblas {

// Limbs are numbered by their position in the basis: q_i at i, p_j at num_q + j.
class Context {
  public:
    // alpha: number of q limbs per digit. digit_limbs: if not empty, that of each digit from q_0 on; alpha is the most.
    // Throws std::invalid_argument on primes that do not fit (Basis), when there is no q prime, and unless 1 <= alpha <=
    // 64, digits have all q limbs and from 1 to alpha each, there are at most 63 special primes and at most 512 digits
    // (what the kernels sum up, see RotationTerm).
    Context(std::size_t n, const std::vector<std::uint64_t>& q, const std::vector<std::uint64_t>& p,
            int alpha, const std::vector<int>& digit_limbs = {});

    const Basis& basis() const { return basis_; }
    std::size_t n() const { return basis_.n(); }
    int log_n() const { return basis_.log_n(); }
    // About how many word operations the transform of a limb is; see `threads_for_work`.
    std::size_t transform_operations() const { return n() * static_cast<std::size_t>(log_n()) / 2; }
    std::size_t slots() const { return basis_.n() / 2; }
    int num_q() const { return num_q_; }
    int num_p() const { return num_p_; }
    int alpha() const { return alpha_; }
    const Modulus& modulus(int i) const { return basis_.modulus(i); }
    const NttTable& table(int i) const { return basis_.table(i); }

    // Bits of a word of a switching key modulo the prime at position i (ring/packing.h).
    int key_bits(int i) const { return packed_bits(modulus(i).bits); }
    // Words of a component of a key for so many q limbs, which the special limbs follow; and of those before that of a limb.
    std::size_t key_words(int limbs) const { return key_words_before(limbs, basis_.size()); }
    std::size_t key_words_before(int limbs, int i) const {
        const auto before = [&](int j) { return key_words_before_[static_cast<std::size_t>(j)]; };
        return before(i) - (i < num_q_ ? 0 : before(num_q_) - before(limbs));
    }

    // Halves of 64 bits that clear factors take modulo the primes before position i, for each coefficient (ring/packing.h).
    std::size_t halves_before(int i) const { return halves_before_[static_cast<std::size_t>(i)]; }

    // Digits of the first `limbs` q limbs, at least one of them.
    int digits(int limbs) const { return owner(limbs - 1) + 1; }
    // The digit of a q limb.
    int owner(int limb) const { return owners_[static_cast<std::size_t>(limb)]; }
    int digit_begin(int digit) const { return begins_[static_cast<std::size_t>(digit)]; }
    int digit_end(int digit, int limbs) const {
        const int end = begins_[static_cast<std::size_t>(digit) + 1];
        return end < limbs ? end : limbs;
    }

    // The conversion from q_first .. q_{first+count-1} and, if `special`, all special primes, to the other primes.
    // Made at the first use and kept. Thread-safe.
    const BaseConversion& conversion(int first, int count, bool special) const;

    // Throws std::invalid_argument unless 1 <= limbs <= num_q.
    void check_limbs(int limbs) const;

  private:
    static constexpr int kMaxDigits = 512;
    void divide(const std::vector<int>& digit_limbs);

    Basis basis_;
    int num_q_, num_p_, alpha_;
    std::vector<int> begins_,
        owners_;  // of digits: the first limb of each and the end of all; of limbs: the digit
    std::vector<std::size_t> key_words_before_{0};
    std::vector<std::size_t> halves_before_{0};
    mutable std::mutex lock_;
    mutable std::map<std::tuple<int, int, bool>, std::unique_ptr<const BaseConversion>> conversions_;
};

}  // namespace cipherblas
