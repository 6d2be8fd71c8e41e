#include "rlwe/operand_rows.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "ring/kernels.h"
#include "ring/samplers.h"
#include "ring/threads.h"
#include "rlwe/encryption.h"
#include "rlwe/row_segments.h"

namespace cipherblas {
namespace {

using gemm::kModuliOfWord;
using gemm::kSecondFractionBits;
using gemm::MatrixSpan;
using gemm::MatrixView;
using gemm::OperandModuli;

// Products of bytes and a secret of coefficients -1, 0 and 1, over the integers: of as many bytes together as a prime holds.
class ByteMasks {
  public:
    explicit ByteMasks(const Context& context)
        : context_(context),
          prime_(largest_prime(context)),
          // N bytes add up to less than 2^(field - 1), and all fields to less than half of the prime, which is at least
          // 2^(its bits - 1).
          field_(context.log_n() + 9),
          together_(static_cast<std::size_t>((context.modulus(prime_).bits - 1) / field_)) {
        if (together_ == 0) {
            throw std::invalid_argument("encrypt_operand_rows: expected a prime of " +
                                        std::to_string(field_ + 1) + " bits or more");
        }
    }

    std::size_t together() const { return together_; }

    // product[j] = the products of the bytes from `first` on, `count` of them, at their fields.
    void multiply(const std::uint64_t* words, std::size_t first, std::size_t count,
                  const SecretsView& secrets, std::uint64_t* product) const {
        const Kernels& k = kernels();
        const std::size_t n = context_.n();
        for (std::size_t j = 0; j < n; ++j) {
            std::uint64_t fields = 0;
            for (std::size_t i = 0; i < count; ++i) {
                fields |= (words[j] >> (8 * (first + i)) & 0xff) << (static_cast<std::size_t>(field_) * i);
            }
            product[j] = fields;
        }
        k.ntt(product, context_.table(prime_));
        k.mul(product, product, secrets.limb(0, prime_), n, context_.modulus(prime_));
        k.intt(product, context_.table(prime_));
    }

    // Bits of a field of a product, a signed number as the product is modulo the prime.
    int field() const { return field_; }
    std::uint64_t prime() const { return context_.modulus(prime_).q; }

  private:
    const Context& context_;
    int prime_, field_;
    std::size_t together_;
};

// Remainders of words below 2^62 in absolute value, less a field below 2^30, in three pieces of 21 bits: their sum is below
// 2^31, so that its quotient is exact.
class Divider {
  public:
    explicit Divider(std::uint64_t divisor)
        : divisor_(divisor),
          second_((std::uint64_t{1} << kPiece) % divisor),
          third_(second_ * second_ % divisor),
          lift_(((std::uint64_t{1} << 30) / divisor) * divisor),
          reciprocal_((std::uint64_t{1} << kShift) / divisor + 1) {}

    std::uint64_t remainder(std::int64_t x, std::int64_t field) const {
        constexpr std::uint64_t kMask = (std::uint64_t{1} << kPiece) - 1;
        const auto word = static_cast<std::uint64_t>(x);
        const auto top = static_cast<std::uint64_t>(x >> (2 * kPiece));
        const std::uint64_t sum = (word & kMask) + (word >> kPiece & kMask) * second_ + top * third_ + lift_ -
                                  static_cast<std::uint64_t>(field);
        return sum - (sum * reciprocal_ >> kShift) * divisor_;
    }

  private:
    static constexpr int kPiece = 21, kShift = 40;

    std::uint64_t divisor_, second_, third_, lift_, reciprocal_;
};

// Fractions of W, rounded to multiples of 1 / Q, modulo each limb of Q, in their place.
class FractionSwitch {
  public:
    FractionSwitch(const Context& context, int limbs) : context_(context), limbs_(limbs) {
        const int most = most_switched_limbs(context);
        if (limbs < 1 || limbs > most) {
            throw std::invalid_argument("limbs: expected 1 to " + std::to_string(most) + ", got " +
                                        std::to_string(limbs));
        }
    }

    std::size_t limbs() const { return static_cast<std::size_t>(limbs_); }

    void operator()(std::uint64_t* fractions, std::size_t words) const {
        if (words == 0) return;
        const bool two = limbs_ == 2;
        parallel_rows(1, words, two ? 32 : 4, [&](std::size_t, std::size_t begin, std::size_t count) {
            two ? to_two(fractions + begin, fractions + words + begin, count)
                : to_one(fractions + begin, count);
        });
    }

  private:
    void to_one(std::uint64_t* x, std::size_t count) const {
        const std::uint64_t q = context_.modulus(0).q;
        for (std::size_t i = 0; i < count; ++i) {
            const u128 scaled = static_cast<u128>(q) * x[i] + (u128{1} << 63);
            const auto quotient = static_cast<std::uint64_t>(scaled >> 64);
            x[i] = quotient == q ? 0 : quotient;
        }
    }

    void to_two(std::uint64_t* first, std::uint64_t* second, std::size_t count) const {
        constexpr int kBits = 64 + kSecondFractionBits, kHalfBits = 50;
        constexpr u128 kOne = 1;
        const std::uint64_t q0 = context_.modulus(0).q, q1 = context_.modulus(1).q;
        const u128 q = static_cast<u128>(q0) * q1;
        const auto high = [](u128 x) { return static_cast<std::uint64_t>(x >> 64); };
        const auto low = [](u128 x) { return static_cast<std::uint64_t>(x); };
        constexpr std::uint64_t kMask = (std::uint64_t{1} << kHalfBits) - 1;
        const ShoupFactor high0((std::uint64_t{1} << kHalfBits) % q0, q0), low0(1, q0);
        const ShoupFactor high1((std::uint64_t{1} << kHalfBits) % q1, q1), low1(1, q1);
        const Modulus &m0 = context_.modulus(0), &m1 = context_.modulus(1);
        for (std::size_t i = 0; i < count; ++i) {
            const auto rest = static_cast<std::int64_t>(second[i]);
            const u128 fraction = ((static_cast<u128>(first[i]) << kSecondFractionBits) +
                                   static_cast<u128>(static_cast<__int128>(rest))) &
                                  ((kOne << kBits) - 1);
            const u128 p00 = static_cast<u128>(low(q)) * low(fraction);
            const u128 p01 = static_cast<u128>(low(q)) * high(fraction);
            const u128 p10 = static_cast<u128>(high(q)) * low(fraction);
            const u128 middle = static_cast<u128>(high(p00)) + low(p01) + low(p10);
            u128 upper = static_cast<u128>(high(q)) * high(fraction) + high(p01) + high(p10) + high(middle);
            u128 lower = static_cast<u128>(low(middle)) << 64 | low(p00);
            const u128 half = kOne << (kBits - 1);
            upper += lower + half < lower ? 1 : 0;
            lower += half;
            const u128 quotient = upper << (128 - kBits) | lower >> kBits;
            const auto a = static_cast<std::uint64_t>(quotient >> kHalfBits);
            const auto b = static_cast<std::uint64_t>(quotient) & kMask;
            first[i] = add_mod(high0.times(a), low0.times(b), m0);
            second[i] = add_mod(high1.times(a), low1.times(b), m1);
        }
    }

    const Context& context_;
    int limbs_;
};

std::vector<MatrixSpan> spans(std::uint64_t* out, std::size_t fractions, std::size_t rows, std::size_t cols) {
    std::vector<MatrixSpan> found;
    for (std::size_t f = 0; f < fractions; ++f) {
        found.push_back({out + f * rows * cols, rows, cols, static_cast<std::ptrdiff_t>(cols)});
    }
    return found;
}

template <typename VIEW>
std::vector<VIEW> blocks(const std::vector<VIEW>& views, std::size_t row, std::size_t col, std::size_t rows,
                         std::size_t cols) {
    std::vector<VIEW> found;
    for (const VIEW& view : views) found.push_back(view.block(row, col, rows, cols));
    return found;
}

std::vector<MatrixView> transposed(const std::vector<MatrixView>& views) {
    std::vector<MatrixView> found;
    for (const MatrixView& view : views) found.push_back(view.transposed());
    return found;
}

void gram_fractions(const std::vector<MatrixView>& x, const OperandModuli& moduli, std::size_t least,
                    const std::vector<MatrixSpan>& c) {
    const std::size_t rows = x[0].rows, cols = x[0].cols;
    if (cols <= least) return gemm::operand_gemm(transposed(x), x, moduli, c);
    const std::size_t half = cols / 2, rest = cols - half;
    const auto left = blocks(x, 0, 0, rows, half), right = blocks(x, 0, half, rows, rest);
    gram_fractions(left, moduli, least, blocks(c, 0, 0, half, half));
    gram_fractions(right, moduli, least, blocks(c, half, half, rest, rest));
    gemm::operand_gemm(transposed(left), right, moduli, blocks(c, 0, half, half, rest));
    for (const MatrixSpan& fraction : c) {
        parallel_for(rest, threads_for_work(rest, rest * half), [&](std::size_t i, int) {
            std::uint64_t* const row = fraction.row(half + i);
            for (std::size_t j = 0; j < half; ++j) row[j] = fraction.row(j)[half + i];
        });
    }
}

// b = -a s + the entries modulo each of the moduli. entries(row, errors): of a row with these errors, the function of a
// modulus, its number and a column that gives an entry below 2^62 in absolute value.
template <typename Entries>
void encrypt_bytes(const Context& context, const RowLayout& layout, const SecretsView& secrets,
                   const std::uint64_t* a, const std::uint64_t* noise_words, const OperandModuli& moduli,
                   std::uint64_t* b, const Entries& entries) {
    if (layout.sharing != RowSharing::kSecrets || layout.segments() != 1) {
        throw std::invalid_argument("encrypt_operand_rows: expected rows of at most N, one secret");
    }
    const std::size_t n = layout.n, width = layout.width;
    const ByteMasks masks(context);
    std::vector<Divider> dividers;
    for (std::size_t i = 0; i < moduli.count(); ++i) dividers.emplace_back(moduli[i]);
    const int threads = threads_for(layout.rows);
    const Workspaces workspaces(threads, 2, n, width);
    const Segment segment = segment_of(layout, 0);
    const std::uint64_t prime = masks.prime();
    const int unused = 64 - masks.field();
    parallel_for(layout.rows, threads, [&](std::size_t row, int thread) {
        std::uint64_t* const product = workspaces.vector(thread, 0);
        std::int64_t* const fields = reinterpret_cast<std::int64_t*>(workspaces.vector(thread, 1));
        std::int64_t* const errors = workspaces.row(thread);
        sample_gaussian(errors, noise_words + row * width, width);
        const auto entry = entries(row, errors);
        for (std::size_t word = 0; word < moduli.words(); ++word) {
            std::uint64_t* const out = b + (word * layout.rows + row) * width;
            std::fill_n(out, width, 0);
            const std::size_t bytes = moduli.count_of(word);
            for (std::size_t first = 0; first < bytes; first += masks.together()) {
                const std::size_t count = std::min(masks.together(), bytes - first);
                masks.multiply(a + (word * layout.rows + row) * n, first, count, secrets, product);
                gather(product, segment);
                for (std::size_t j = 0; j < width; ++j) {
                    const std::uint64_t x = product[j];
                    fields[j] = static_cast<std::int64_t>(x - (x > prime / 2 ? prime : 0));
                }
                for (std::size_t i = first; i < first + count; ++i) {
                    const std::size_t number = word * kModuliOfWord + i;
                    const Divider divider = dividers[number];
                    for (std::size_t j = 0; j < width; ++j) {
                        const auto field =
                            static_cast<std::int64_t>(static_cast<std::uint64_t>(fields[j]) << unused) >>
                            unused;
                        fields[j] = (fields[j] - field) >> (64 - unused);
                        out[j] |= divider.remainder(entry(divider, number, j), field) << (8 * i);
                    }
                }
            }
        }
    });
}

}  // namespace

int largest_prime(const Context& context) {
    int found = 0;
    for (int i = 1; i < context.num_q() + context.num_p(); ++i) {
        if (context.modulus(i).q > context.modulus(found).q) found = i;
    }
    return found;
}

int most_switched_limbs(const Context& context) {
    return std::min(context.num_q(), static_cast<int>(gemm::kMostFractions));
}

void uniform_operands(const std::uint64_t* random, std::size_t count, const OperandModuli& moduli,
                      std::size_t word, std::uint64_t* out) {
    parallel_rows(1, count, 16, [&](std::size_t, std::size_t begin, std::size_t length) {
        for (std::size_t i = begin; i < begin + length; ++i) {
            u128 fraction = static_cast<u128>(random[2 * i]) << 64 | random[2 * i + 1];
            std::uint64_t bytes = 0;
            for (std::size_t b = 0; b < moduli.count_of(word); ++b) {
                const std::uint64_t p = moduli.of_word(word)[b];
                const u128 low = static_cast<u128>(static_cast<std::uint64_t>(fraction)) * p;
                const u128 high =
                    static_cast<u128>(static_cast<std::uint64_t>(fraction >> 64)) * p + (low >> 64);
                bytes |= static_cast<std::uint64_t>(high >> 64) << (8 * b);
                fraction = high << 64 | static_cast<std::uint64_t>(low);
            }
            out[i] = bytes;
        }
    });
}

void encrypt_operand_rows(const Context& context, const RowLayout& layout, const SecretsView& secrets,
                          const std::uint64_t* a, const std::uint64_t* noise_words,
                          const RowMessages& messages, const OperandModuli& moduli, std::uint64_t* b) {
    if (!fits_words(messages, layout.rows * layout.width)) {
        throw std::invalid_argument("encrypt_operand_rows: expected messages below 2^61");
    }
    encrypt_bytes(context, layout, secrets, a, noise_words, moduli, b,
                  [&](std::size_t row, std::int64_t* values) {
                      const RowMessages message = messages.from(row * layout.width);
                      for (std::size_t j = 0; j < layout.width; ++j) {
                          values[j] += static_cast<std::int64_t>(message.rounded(j));
                      }
                      return [values](const Divider&, std::size_t, std::size_t j) { return values[j]; };
                  });
}

void encrypt_operand_integers(const Context& context, const RowLayout& layout, const SecretsView& secrets,
                              const std::uint64_t* a, const std::uint64_t* noise_words,
                              const IntegerMessages& messages, const OperandModuli& moduli,
                              std::uint64_t* b) {
    encrypt_bytes(
        context, layout, secrets, a, noise_words, moduli, b,
        [&](std::size_t row, const std::int64_t* errors) {
            const std::int64_t* const message = messages.matrix + row * layout.width;
            return [&messages, message, errors](const Divider& divider, std::size_t i, std::size_t j) {
                const auto residue = static_cast<std::int64_t>(divider.remainder(message[j], 0));
                return residue * messages.message_factors[i] + errors[j] * messages.error_factors[i];
            };
        });
}

void multiply_operands(const Context& context, const std::vector<MatrixView>& x,
                       const std::vector<MatrixView>& y, const OperandModuli& moduli, int limbs,
                       std::uint64_t* out) {
    const FractionSwitch switched(context, limbs);
    const std::size_t rows = x[0].rows, cols = y[0].cols;
    gemm::operand_gemm(x, y, moduli, spans(out, switched.limbs(), rows, cols));
    switched(out, rows * cols);
}

void gram_operands(const Context& context, const std::vector<MatrixView>& x, const OperandModuli& moduli,
                   int limbs, std::size_t least, std::uint64_t* out) {
    const FractionSwitch switched(context, limbs);
    const std::size_t cols = x[0].cols;
    gram_fractions(x, moduli, least, spans(out, switched.limbs(), cols, cols));
    switched(out, cols * cols);
}

}  // namespace cipherblas
