#include "rlwe/transpose_plan.h"

#include <stdexcept>

#include "ring/automorphism.h"
#include "ring/row_transform.h"

namespace cipherblas {
namespace {

struct Power {
    bool negative = false;
    std::uint64_t exponent = 0;  // of 5
};

// v = +-5^e for all odd v < 2d, at index v / 2.
std::vector<Power> powers_of_five(std::uint64_t rows) {
    std::vector<Power> powers(rows);
    std::uint64_t v = 1;
    for (std::uint64_t e = 0; e < rows / 2; ++e, v = v * 5 % (2 * rows)) {
        powers[v / 2] = {false, e};
        powers[(2 * rows - v) / 2] = {true, e};
    }
    return powers;
}

// Collects the elements 5^e and -5^e that are asked for.
class Elements {
  public:
    Elements(std::uint64_t rows, std::vector<std::uint64_t>& elements)
        : rows_(rows), elements_(&elements), index_(rows, -1) {}

    // Adds to a row's steps, unless it is the identity.
    void apply(bool negative, std::uint64_t exponent, std::vector<int>& steps) {
        std::uint64_t v = 1;
        for (std::uint64_t power = 5, e = exponent; e != 0; e /= 2, power = power * power % (2 * rows_)) {
            if (e % 2 == 1) v = v * power % (2 * rows_);
        }
        apply(negative ? 2 * rows_ - v : v, steps);
    }
    void apply(std::uint64_t element, std::vector<int>& steps) {
        if (element == 1) return;
        int& index = index_[element / 2];
        if (index < 0) {
            index = static_cast<int>(elements_->size());
            elements_->push_back(element);
        }
        steps.push_back(index);
    }

  private:
    std::uint64_t rows_;
    std::vector<std::uint64_t>* elements_;
    std::vector<int> index_;  // by element / 2
};

}  // namespace

TransposePolicy transpose_policy(const std::string& name) {
    if (name == "fast") return TransposePolicy::kFast;
    if (name == "light") return TransposePolicy::kLight;
    if (name == "binary") return TransposePolicy::kBinary;
    throw std::invalid_argument("policy: expected fast, light or binary, got " + name);
}

TransposePlan::TransposePlan(int log_d, TransposePolicy policy)
    : log_rows(log_d), steps(std::size_t{1} << log_d) {
    const std::uint64_t rows = std::uint64_t{1} << log_d;
    const std::uint64_t base = std::uint64_t{1} << (log_d + 1) / 2;  // B + d / B keys are fewest at sqrt(d)
    const std::vector<Power> powers = powers_of_five(rows);
    Elements all(rows, elements);
    for (std::size_t p = 0; p < rows; ++p) {
        const std::uint64_t v = inverse_mod_power_of_two(row_exponent(p, log_d), 2 * rows - 1);
        const auto [negative, exponent] = powers[v / 2];
        switch (policy) {
            case TransposePolicy::kFast:
                all.apply(v, steps[p]);
                break;
            case TransposePolicy::kLight:
                all.apply(negative, exponent / base * base, steps[p]);
                all.apply(false, exponent % base, steps[p]);
                break;
            case TransposePolicy::kBinary:
                all.apply(negative, 0, steps[p]);
                for (std::uint64_t bit = 1; bit < rows / 2; bit *= 2) {
                    all.apply(false, exponent & bit, steps[p]);
                }
                break;
        }
    }
}

std::size_t TransposePlan::switches() const {
    std::size_t count = 0;
    for (const std::vector<int>& row : steps) count += row.size();
    return count;
}

}  // namespace cipherblas
