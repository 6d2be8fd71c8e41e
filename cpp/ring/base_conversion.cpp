#include "ring/base_conversion.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace cipherblas {
namespace {

// One step of convert: this many words of all sources together, 24 KiB of the first-level cache.
constexpr std::size_t kPieceWords = 3072;
// Sources that are larger than this together do not wait in the second-level cache.
constexpr std::size_t kResidentWords = std::size_t{1} << 16;
constexpr std::size_t kWordsPerLine = 8;

}  // namespace

BaseConversion::BaseConversion(const Basis& basis, std::vector<int> sources)
    : basis_(&basis), sources_(std::move(sources)) {
    const std::size_t count = sources_.size();
    if (count < 1 || count > kMaxSources) {
        throw std::invalid_argument("base conversion: expected 1 to 64 source primes, got " +
                                    std::to_string(count));
    }
    const std::size_t targets = static_cast<std::size_t>(basis.size());
    factors_.assign(targets * count, 0);
    overflow_factors_.assign(targets, 0);
    products_.assign(targets, 0);
    inverses_.assign(targets, 0);
    digit_factors_.assign(count, 0);

    // D / d_i modulo m, for all i, by products from both ends (d_i may vanish modulo m).
    const auto cofactors = [&](const Modulus& m) {
        std::vector<std::uint64_t> result(count, 1);
        std::uint64_t head = 1, tail = 1;
        for (std::size_t i = 0; i < count; ++i) {
            result[i] = mul_mod(result[i], head, m);
            head = mul_mod(head, basis.modulus(sources_[i]).q % m.q, m);
            const std::size_t j = count - 1 - i;
            result[j] = mul_mod(result[j], tail, m);
            tail = mul_mod(tail, basis.modulus(sources_[j]).q % m.q, m);
        }
        return result;
    };
    for (std::size_t i = 0; i < count; ++i) {
        const Modulus& d = basis.modulus(sources_[i]);
        digit_factors_[i] = inv_mod(cofactors(d)[i], d);
        reciprocals_.push_back(1.0 / static_cast<double>(d.q));
    }
    for (std::size_t t = 0; t < targets; ++t) {
        const Modulus& m = basis.modulus(static_cast<int>(t));
        const std::vector<std::uint64_t> cofactor = cofactors(m);
        for (std::size_t i = 0; i < count; ++i) factors_[t * count + i] = to_montgomery(cofactor[i], m);
        const std::uint64_t product = mul_mod(cofactor[0], basis.modulus(sources_[0]).q % m.q, m);
        products_[t] = product;
        if (product != 0) inverses_[t] = inv_mod(product, m);
        overflow_factors_[t] = to_montgomery(sub_mod(0, product, m), m);
    }
}

void BaseConversion::overflow(std::uint64_t* v, const std::uint64_t* const* y, std::size_t n) const {
    kernels().base_overflow(v, y, reciprocals_.data(), count(), n);
}

void BaseConversion::convert(std::uint64_t* const* out, const int* targets, int target_count,
                             const std::uint64_t* const* y, const std::uint64_t* v, std::size_t n) const {
    const Kernels& k = kernels();
    const int sources = count();
    const std::size_t words = static_cast<std::size_t>(sources);
    const std::size_t step = target_count == 1 ? n : std::max<std::size_t>(kPieceWords / words / 64 * 64, 64);
    const bool fetches = target_count > 1 && words * n > kResidentWords;
    std::array<const std::uint64_t*, kMaxSources> piece{};
    for (std::size_t offset = 0; offset < n; offset += step) {
        const std::size_t length = std::min(step, n - offset);
        for (int i = 0; i < sources; ++i) piece[static_cast<std::size_t>(i)] = y[i] + offset;
        const std::size_t next =
            fetches ? std::min(step, n - offset - length) : 0;  // words of the next piece
        for (int t = 0; t < target_count; ++t) {
            // The next piece is fetched meanwhile: so many short streams are beyond the prefetchers of a CPU.
            for (int i = sources * t / target_count; i < sources * (t + 1) / target_count; ++i) {
                for (std::size_t j = 0; j < next; j += kWordsPerLine) {
                    __builtin_prefetch(y[i] + offset + length + j, 0, 2);
                }
            }
            const std::size_t target = static_cast<std::size_t>(targets[t]);
            k.base_convert(out[t] + offset, piece.data(), &factors_[target * words], sources, v + offset,
                           overflow_factors_[target], length, basis_->modulus(targets[t]));
        }
    }
}

}  // namespace cipherblas
