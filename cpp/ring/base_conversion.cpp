#include "ring/base_conversion.h"

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>
#include <string>

#include "ring/pool.h"

namespace cipherblas {
namespace {

// A piece: at most so many words of all sources and the overflow, 32 KiB of the first-level cache; at the least a line of
// each part.
constexpr std::size_t kPieceWords = 4096;
// Sources that are larger than this together do not wait in the second-level cache.
constexpr std::size_t kResidentWords = std::size_t{1} << 16;
constexpr std::size_t kWordsPerLine = 8;
constexpr int kPreparedTargets = 3;  // fewer of them do not make up for it
// Sources and converted limbs of one conversion beyond this go past the caches. They come with those of other digits.
constexpr std::size_t kBypassWords = std::size_t{1} << 19;

}  // namespace

BaseConversion::BaseConversion(const Basis& basis, std::vector<int> sources)
    : basis_(&basis), sources_(std::move(sources)) {
    const std::size_t count = sources_.size();
    if (count < 1 || count > kMaxSources) {
        throw std::invalid_argument("base conversion: expected 1 to 64 source primes, got " +
                                    std::to_string(count));
    }
    const std::size_t targets = static_cast<std::size_t>(basis.size());
    factors_.assign(targets * (count + 1), 0);
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
        for (std::size_t i = 0; i < count; ++i) factors_[t * (count + 1) + i] = to_montgomery(cofactor[i], m);
        const std::uint64_t product = mul_mod(cofactor[0], basis.modulus(sources_[0]).q % m.q, m);
        products_[t] = product;
        if (product != 0) inverses_[t] = inv_mod(product, m);
        const std::uint64_t of_overflow = count == 1 ? basis.modulus(sources_[0]).q / 2 % m.q : product;
        factors_[t * (count + 1) + count] = to_montgomery(sub_mod(0, of_overflow, m), m);
    }
}

// A single source is read in the natural order: nothing of it is read twice from one piece of memory.
PieceLayout BaseConversion::layout(bool together) const {
    const std::size_t parts = static_cast<std::size_t>(kernels().ntt_parts(basis_->log_n()));
    const std::size_t part = basis_->n() / parts;
    if (!together || parts == 1 || count() == 1) return {part, 0};
    const std::size_t streams = sources_.size() * parts;
    const std::size_t length = std::max<std::size_t>(std::bit_floor(kPieceWords / (streams + parts)), 8);
    return {std::min(length, part), streams * length};
}

void BaseConversion::prepare(std::uint64_t* block, int i, const LimbSource& limb, bool together,
                             std::uint64_t* scratch) const {
    const PieceLayout pieces = layout(together);
    const Modulus& d = basis_->modulus(source(i));
    const std::uint64_t factor = mul_mod(digit_factors_[static_cast<std::size_t>(i)], limb.factor, d);
    const std::size_t step = pieces.stride == 0 ? basis_->n() : pieces.stride / sources_.size();
    const bool bypass = pieces.stride > 0 && sources_.size() * basis_->n() > kBypassWords;
    kernels().intt_scaled(block + static_cast<std::size_t>(i) * step, limb.a, limb.b, scratch,
                          limb.negated ? d.q - factor : factor, count() == 1 ? d.q / 2 : 0, pieces, bypass,
                          basis_->table(source(i)));
}

void BaseConversion::prepare_coefficients(std::uint64_t* block, int i, const std::uint64_t* x) const {
    const std::size_t n = basis_->n();
    const Modulus& d = basis_->modulus(source(i));
    std::uint64_t* const y = block + static_cast<std::size_t>(i) * n;
    if (count() > 1) {
        return kernels().mul_scalar(y, x, digit_factors_[static_cast<std::size_t>(i)], n, d);
    }
    for (std::size_t j = 0; j < n; ++j) y[j] = add_mod(x[j], d.q / 2, d);
}

void BaseConversion::overflow(std::uint64_t* v, const std::uint64_t* block, std::size_t offset,
                              std::size_t length) const {
    if (count() == 1) {
        std::fill_n(v, length, std::uint64_t{1});
        return;
    }
    std::array<const std::uint64_t*, kMaxSources> y{};
    for (std::size_t i = 0; i < sources_.size(); ++i) y[i] = block + i * basis_->n() + offset;
    kernels().base_overflow(v, y.data(), reciprocals_.data(), count(), length);
}

// The kernels know that of a single source which is not far above the targets.
bool BaseConversion::needs_overflow(const int* targets, int target_count) const {
    return count() > 1 || std::any_of(targets, targets + target_count, [&](int target) {
               return basis_->modulus(sources_[0]).q > ConversionPiece::kNear * basis_->modulus(target).q;
           });
}

void BaseConversion::convert(std::uint64_t* const* out, const int* targets, int target_count,
                             const std::uint64_t* block, bool together, const std::uint64_t* v) const {
    const Kernels& k = kernels();
    const std::size_t n = basis_->n();
    const std::size_t sources = sources_.size();
    const std::size_t parts = static_cast<std::size_t>(k.ntt_parts(basis_->log_n()));
    const std::size_t part = n / parts;  // words
    const PieceLayout pieces = layout(together);
    const bool packed = pieces.stride > 0;
    const bool counts = v == nullptr && needs_overflow(targets, target_count);
    Buffer overflows;
    if (counts && !packed) {
        overflows = Buffer::of_words(n);
        overflow(overflows.words(), block, 0, n);
        v = overflows.words();
    }
    std::size_t step = packed ? pieces.length : part;
    if (!packed && target_count > 1)
        step = std::min(step, std::max<std::size_t>(kPieceWords / (sources * parts) / 8 * 8, 8));
    const std::size_t source_words = packed ? parts * pieces.length : n;
    const bool fetches = target_count > 1 && sources * n > kResidentWords;
    const bool bypass = static_cast<std::size_t>(target_count) * n > kBypassWords;
    std::array<const std::uint64_t*, kMaxSources + 1> piece{};
    alignas(64) std::array<std::uint64_t, kPieceWords> counted;
    // Sources and overflow of a piece, as the kernels read them faster.
    const bool prepares =
        k.prepare_words != nullptr && parts == 1 && target_count >= kPreparedTargets && v != nullptr;
    alignas(64) std::array<std::uint64_t, 2 * kPieceWords> prepared;

    for (std::size_t offset = 0; offset < part; offset += step) {
        const std::size_t length = std::min(step, part - offset);
        const std::uint64_t* const first = block + (packed ? offset / step * pieces.stride : offset);
        for (std::size_t i = 0; i < sources; ++i) piece[i] = first + i * source_words;
        piece[sources] = v == nullptr ? nullptr : v + offset;
        if (packed) {
            k.base_overflow(counted.data(), piece.data(), reciprocals_.data(), count(), source_words);
            piece[sources] = counted.data();
        }
        ConversionPiece words{piece.data(), packed ? length : part, offset, length};
        for (std::size_t i = 0; prepares && i <= sources; ++i) {
            k.prepare_words(prepared.data() + i * length, piece[i], length);
            piece[i] = prepared.data() + i * length;
        }
        words.prepared = prepares;
        const std::size_t next = fetches ? std::min(step, part - offset - length) : 0;  // of the next piece
        for (int t = 0; t < target_count; ++t) {
            // The next piece is fetched meanwhile: so many short streams are beyond the prefetchers of a CPU.
            const std::size_t number = static_cast<std::size_t>(t);
            const std::size_t all = static_cast<std::size_t>(target_count);
            for (std::size_t i = sources * number / all; next > 0 && i < sources * (number + 1) / all; ++i) {
                for (std::size_t p = 0; p < parts; ++p) {
                    const std::uint64_t* const from =
                        first + i * source_words + (packed ? pieces.stride + p * length : p * part + length);
                    for (std::size_t j = 0; j < next; j += kWordsPerLine) __builtin_prefetch(from + j, 0, 2);
                }
            }
            for (std::size_t p = 0; !bypass && next > 0 && p < parts; ++p) {
                std::uint64_t* const to = out[t] + p * part + offset + length;
                for (std::size_t j = 0; j < next; j += kWordsPerLine) __builtin_prefetch(to + j, 0, 2);
            }
            const std::size_t target = static_cast<std::size_t>(targets[t]);
            const ConversionFactors factors{&factors_[target * (sources + 1)], count(),
                                            basis_->modulus(sources_[0]).q};
            k.base_convert_ntt(out[t], words, factors, bypass, basis_->table(targets[t]));
        }
    }
    if (bypass) k.order_stores();
}

bool BaseConversion::converts_halves(const int* targets, int target_count) const {
    return kernels().ntt_parts(basis_->log_n()) > 1 && !needs_overflow(targets, target_count);
}

void BaseConversion::convert_half(std::uint64_t* out, int target, const std::uint64_t* block,
                                  int half) const {
    const std::size_t part = layout(false).length;
    const std::uint64_t* const y[2] = {block, nullptr};
    const auto parts = half == 0 ? ConversionPiece::Parts::kFirstHalf : ConversionPiece::Parts::kSecondHalf;
    kernels().base_convert_ntt(
        out, {y, part, 0, part, parts},
        {&factors_[static_cast<std::size_t>(target) * 2], 1, basis_->modulus(source(0)).q}, false,
        basis_->table(target));
}

void BaseConversion::convert_coefficients(std::uint64_t* out, int target, const std::uint64_t* block,
                                          const std::uint64_t* v) const {
    std::array<const std::uint64_t*, kMaxSources> y{};
    for (std::size_t i = 0; i < sources_.size(); ++i) y[i] = block + i * basis_->n();
    const std::uint64_t* const factor = &factors_[static_cast<std::size_t>(target) * (sources_.size() + 1)];
    kernels().base_convert(out, y.data(), factor, count(), v, factor[count()], basis_->n(),
                           basis_->modulus(target));
}

}  // namespace cipherblas
