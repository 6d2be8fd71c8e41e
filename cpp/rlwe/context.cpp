#include "rlwe/context.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace cipherblas {
namespace {

std::vector<std::uint64_t> joined(const std::vector<std::uint64_t>& q, const std::vector<std::uint64_t>& p) {
    std::vector<std::uint64_t> all = q;
    all.insert(all.end(), p.begin(), p.end());
    return all;
}

}  // namespace

Context::Context(std::size_t n, const std::vector<std::uint64_t>& q, const std::vector<std::uint64_t>& p,
                 int alpha, const std::vector<int>& digit_limbs)
    : basis_(n, joined(q, p)),
      num_q_(static_cast<int>(q.size())),
      num_p_(static_cast<int>(p.size())),
      alpha_(alpha) {
    if (q.empty()) throw std::invalid_argument("moduli: expected at least one q prime, got none");
    if (alpha < 1 || alpha > BaseConversion::kMaxSources) {
        throw std::invalid_argument("alpha: expected 1 to 64 limbs per digit, got " + std::to_string(alpha));
    }
    if (p.size() >= BaseConversion::kMaxSources) {
        throw std::invalid_argument("special primes: expected at most 63, got " + std::to_string(p.size()));
    }
    divide(digit_limbs);
    if (num_p_ > 0 && digits(num_q_) > kMaxDigits) {
        throw std::invalid_argument("alpha: expected at most 512 digits, got " +
                                    std::to_string(digits(num_q_)));
    }
    for (int i = 0; i < basis_.size(); ++i) {
        key_words_before_.push_back(key_words_before_.back() + packed_words(n, key_bits(i)));
        halves_before_.push_back(halves_before_.back() + halves_of(modulus(i).bits));
    }
}

void Context::divide(const std::vector<int>& digit_limbs) {
    int most = 0, limbs = 0;
    for (const int size : digit_limbs) {
        if (size < 1 || size > num_q_ - limbs) most = num_q_ + 1;  // refused
        if (most > num_q_) break;
        most = std::max(most, size);
        limbs += size;
    }
    if (!digit_limbs.empty() && (most != alpha_ || limbs != num_q_)) {
        throw std::invalid_argument("digit_limbs: expected 1 to " + std::to_string(alpha_) +
                                    " limbs per digit, which one has, and " + std::to_string(num_q_) +
                                    " together, got others");
    }
    for (int begin = 0; begin < num_q_;) {
        begins_.push_back(begin);
        const std::size_t digit = begins_.size() - 1;
        const int size = digit_limbs.empty() ? alpha_ : digit_limbs[digit];
        const int end = std::min(begin + size, num_q_);
        owners_.insert(owners_.end(), static_cast<std::size_t>(end - begin), static_cast<int>(digit));
        begin = end;
    }
    begins_.push_back(num_q_);
}

const BaseConversion& Context::conversion(int first, int count, bool special) const {
    const std::lock_guard<std::mutex> guard(lock_);
    auto& entry = conversions_[{first, count, special}];
    if (!entry) {
        std::vector<int> sources;
        for (int i = 0; i < count; ++i) sources.push_back(first + i);
        for (int j = 0; special && j < num_p_; ++j) sources.push_back(num_q_ + j);
        entry = std::make_unique<const BaseConversion>(basis_, std::move(sources));
    }
    return *entry;
}

void Context::check_limbs(int limbs) const {
    if (limbs < 1 || limbs > num_q_) {
        throw std::invalid_argument("limbs: expected 1 to " + std::to_string(num_q_) + ", got " +
                                    std::to_string(limbs));
    }
}

}  // namespace cipherblas
