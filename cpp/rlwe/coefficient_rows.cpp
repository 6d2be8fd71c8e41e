#include "rlwe/coefficient_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "ring/kernels.h"
#include "ring/pool.h"
#include "ring/samplers.h"
#include "ring/threads.h"
#include "rlwe/encryption.h"

namespace cipherblas {
namespace {

std::size_t padded(std::size_t count) { return (count + 7) / 8 * 8; }

// The workspace of one thread: a few vectors of N words, and one of the width of a row.
class Workspaces {
  public:
    Workspaces(int threads, std::size_t vectors, std::size_t n, std::size_t width)
        : n_(n),
          vectors_(vectors),
          words_(vectors * n + padded(width)),
          buffer_(Buffer::of_words(threads, words_)) {}
    std::uint64_t* vector(int thread, std::size_t i) const {
        return buffer_.words() + static_cast<std::size_t>(thread) * words_ + i * n_;
    }
    std::int64_t* row(int thread) const { return reinterpret_cast<std::int64_t*>(vector(thread, vectors_)); }

  private:
    std::size_t n_, vectors_, words_;
    Buffer buffer_;
};

struct Segment {
    std::size_t index, begin, count, stride;  // the entries [begin, begin + count) of a row
};

Segment segment_of(const RowLayout& layout, std::size_t index) {
    const std::size_t begin = index * layout.n;
    const std::size_t count = std::min(layout.n, layout.width - begin);
    return {index, begin, count, layout.n / std::bit_ceil(count)};
}

// Coefficients of X^(j stride), moved to the front.
void gather(std::uint64_t* x, const Segment& segment) {
    if (segment.stride == 1) return;
    for (std::size_t j = 1; j < segment.count; ++j) x[j] = x[j * segment.stride];
}

// The a parts in NTT form: transformed beforehand where rows share them, else row by row.
class Masks {
  public:
    Masks(const Context& context, const RowLayout& layout, const std::uint64_t* a, int limbs)
        : context_(&context), layout_(&layout), a_(a) {
        if (layout.sharing != RowSharing::kMasks) return;
        const std::size_t n = layout.n, a_rows = layout.a_rows();
        shared_ = Buffer::of_words(limbs, a_rows, n);
        parallel_for(static_cast<std::size_t>(limbs) * a_rows, [&](std::size_t i) {
            transform(a + i * n, static_cast<int>(i / a_rows), shared_.words() + i * n);
        });
    }
    // The a part of a row of the matrix, made in scratch unless it is shared.
    const std::uint64_t* of_row(int limb, std::size_t row, std::uint64_t* scratch) const {
        if (layout_->sharing == RowSharing::kMasks) return nullptr;
        transform(a_ + (static_cast<std::size_t>(limb) * layout_->rows + row) * layout_->n, limb, scratch);
        return scratch;
    }
    const std::uint64_t* of_segment(int limb, std::size_t segment) const {
        return shared_.words() + (static_cast<std::size_t>(limb) * layout_->a_rows() + segment) * layout_->n;
    }

  private:
    void transform(const std::uint64_t* x, int limb, std::uint64_t* out) const {
        std::memcpy(out, x, layout_->n * sizeof(std::uint64_t));
        kernels().ntt(out, context_->table(limb));
    }

    const Context* context_;
    const RowLayout* layout_;
    const std::uint64_t* a_;
    Buffer shared_;
};

// The stored coefficients of a s for one segment, in product; `own` is the a part of the row, or null where shared.
void mask_product(const Context& context, const RowLayout& layout, const SecretsView& secrets,
                  const Masks& masks, const std::uint64_t* own, int limb, std::size_t row,
                  const Segment& segment, std::uint64_t* product) {
    const Kernels& k = kernels();
    const bool shared = own == nullptr;
    k.mul(product, shared ? masks.of_segment(limb, segment.index) : own,
          secrets.limb(shared ? row : segment.index, limb), layout.n, context.modulus(limb));
    k.intt(product, context.table(limb));
    gather(product, segment);
}

// Whether every message fits the signed words of from_signed, with room for the noise.
bool fits_words(const RowMessages& messages, std::size_t count) {
    constexpr double kLargest = 0x1p61;
    double largest = 0.0;
    for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(messages.matrix[i]));
    return largest * std::abs(messages.scale) < kLargest;
}

// out = m + e modulo the prime for `count` entries, rounded by chance: `words` are the random words that e is made of,
// of which the error keeps only the largest bits. Messages beyond a word are reduced first: fmod is exact.
void encode_entries(const double* matrix, double scale, bool fits, const std::int64_t* noise,
                    const std::uint64_t* words, std::size_t count, std::int64_t* values, const Modulus& m,
                    std::uint64_t* out) {
    const double q = static_cast<double>(m.q);
    if (fits) {
        for (std::size_t j = 0; j < count; ++j) {
            values[j] = static_cast<std::int64_t>(round_by_chance(scale * matrix[j], words[j])) + noise[j];
        }
    } else {
        for (std::size_t j = 0; j < count; ++j) {
            values[j] =
                static_cast<std::int64_t>(std::fmod(round_by_chance(scale * matrix[j], words[j]), q)) +
                noise[j];
        }
    }
    std::fill(values + count, values + padded(count), 0);
    kernels().from_signed(out, values, padded(count), m);
}

}  // namespace

void encrypt_rows(const Context& context, const RowLayout& layout, const SecretsView& secrets,
                  const std::uint64_t* a, const std::uint64_t* noise_words, const RowMessages& messages,
                  int limbs, std::uint64_t* b) {
    const std::size_t n = layout.n, width = layout.width;
    const Masks masks(context, layout, a, limbs);
    const int threads = threads_for(layout.rows);
    const Workspaces workspaces(threads, 4, n, width);
    parallel_for(layout.rows, threads, [&](std::size_t row, int thread) {
        std::uint64_t* const mask = workspaces.vector(thread, 0);
        std::uint64_t* const product = workspaces.vector(thread, 1);
        std::uint64_t* const entries = workspaces.vector(thread, 2);
        std::int64_t* const values = reinterpret_cast<std::int64_t*>(workspaces.vector(thread, 3));
        std::int64_t* const noise = workspaces.row(thread);
        const RowMessages message{messages.matrix + row * width, messages.scale};
        const bool fits = fits_words(message, width);
        sample_gaussian(noise, noise_words + row * width, width);
        for (int limb = 0; limb < limbs; ++limb) {
            const std::uint64_t* const own = masks.of_row(limb, row, mask);
            std::uint64_t* const out = b + (static_cast<std::size_t>(limb) * layout.rows + row) * width;
            for (std::size_t c = 0; c < layout.segments(); ++c) {
                const Segment segment = segment_of(layout, c);
                mask_product(context, layout, secrets, masks, own, limb, row, segment, product);
                encode_entries(message.matrix + segment.begin, message.scale, fits, noise + segment.begin,
                               noise_words + row * width + segment.begin, segment.count, values,
                               context.modulus(limb), entries);
                kernels().sub(entries, entries, product, padded(segment.count), context.modulus(limb));
                std::memcpy(out + segment.begin, entries, segment.count * sizeof(std::uint64_t));
            }
        }
    });
}

void check_operand_moduli(const std::vector<std::uint64_t>& moduli) {
    bool good = !moduli.empty() && moduli.size() <= kMostOperandModuli && moduli[0] == kBinaryModulus;
    for (std::size_t i = 1; good && i < moduli.size(); ++i) {
        good = moduli[i] > 2 && moduli[i] < 256 && moduli[i] % 2 == 1;
        for (std::size_t j = 1; good && j < i; ++j) good = std::gcd(moduli[i], moduli[j]) == 1;
    }
    if (good) return;
    throw std::invalid_argument("moduli: expected 2^52, then coprime odd ones below 2^8, at most " +
                                std::to_string(kMostOperandModuli) + " in all");
}

int largest_prime(const Context& context) {
    int found = 0;
    for (int i = 1; i < context.num_q() + context.num_p(); ++i) {
        if (context.modulus(i).q > context.modulus(found).q) found = i;
    }
    return found;
}

namespace {

// Products of words and a secret of coefficients -1, 0 and 1, over the integers: of pieces of the words, modulo a prime
// that holds them.
class ExactMasks {
  public:
    explicit ExactMasks(const Context& context)
        : context_(context),
          prime_(largest_prime(context)),
          // N pieces below 2^bits add up to less than half of the prime, which is at least 2^(its bits - 1).
          bits_(context.modulus(prime_).bits - 2 - context.log_n()) {
        if (bits_ < 8) {
            throw std::invalid_argument("encrypt_operand_rows: expected a prime of " +
                                        std::to_string(10 + context.log_n()) + " bits or more");
        }
    }

    // product = x s mod 2^64 for words x below 2^width. Scratch of N words.
    void multiply(const std::uint64_t* x, int width, const SecretsView& secrets, std::size_t secret,
                  std::uint64_t* scratch, std::uint64_t* product) const {
        const Kernels& k = kernels();
        const std::size_t n = context_.n();
        const Modulus& m = context_.modulus(prime_);
        std::fill_n(product, n, 0);
        for (int shift = 0; shift < width; shift += bits_) {
            const std::uint64_t mask = (std::uint64_t{1} << bits_) - 1;
            for (std::size_t j = 0; j < n; ++j) scratch[j] = x[j] >> shift & mask;
            k.ntt(scratch, context_.table(prime_));
            k.mul(scratch, scratch, secrets.limb(secret, prime_), n, m);
            k.intt(scratch, context_.table(prime_));
            for (std::size_t j = 0; j < n; ++j) {
                product[j] += (scratch[j] - (scratch[j] > m.q / 2 ? m.q : 0)) << shift;
            }
        }
    }

  private:
    const Context& context_;
    int prime_, bits_;
};

// Of any word, signed, modulo a modulus of operands.
std::uint64_t residue_of(std::int64_t x, std::uint64_t modulus) {
    if (modulus == kBinaryModulus) return static_cast<std::uint64_t>(x) % kBinaryModulus;
    const std::int64_t rest = x % static_cast<std::int64_t>(modulus);
    return static_cast<std::uint64_t>(rest < 0 ? rest + static_cast<std::int64_t>(modulus) : rest);
}

}  // namespace

void encrypt_operand_rows(const Context& context, const RowLayout& layout, const SecretsView& secrets,
                          const std::uint64_t* a, const std::uint64_t* noise_words,
                          const RowMessages& messages, const std::vector<std::uint64_t>& moduli,
                          std::uint64_t* b) {
    check_operand_moduli(moduli);
    if (layout.sharing != RowSharing::kSecrets || layout.segments() != 1) {
        throw std::invalid_argument("encrypt_operand_rows: expected rows of at most N, one secret");
    }
    const std::size_t n = layout.n, width = layout.width;
    const ExactMasks masks(context);
    if (!fits_words(messages, layout.rows * width)) {
        throw std::invalid_argument("encrypt_operand_rows: expected messages below 2^61");
    }
    const int threads = threads_for(layout.rows);
    const Workspaces workspaces(threads, 2, n, width);
    const Segment segment = segment_of(layout, 0);
    parallel_for(layout.rows, threads, [&](std::size_t row, int thread) {
        std::uint64_t* const product = workspaces.vector(thread, 0);
        std::uint64_t* const scratch = workspaces.vector(thread, 1);
        std::int64_t* const values = workspaces.row(thread);
        const std::uint64_t* const words = noise_words + row * width;
        const double* const entries = messages.matrix + row * width;
        sample_gaussian(values, words, width);
        for (std::size_t j = 0; j < width; ++j) {
            values[j] += static_cast<std::int64_t>(round_by_chance(messages.scale * entries[j], words[j]));
        }
        for (std::size_t i = 0; i < moduli.size(); ++i) {
            const std::uint64_t* const own = a + (i * layout.rows + row) * n;
            masks.multiply(own, i == 0 ? kWordBits : 8, secrets, 0, scratch, product);
            gather(product, segment);
            std::uint64_t* const out = b + (i * layout.rows + row) * width;
            for (std::size_t j = 0; j < width; ++j) {
                const std::uint64_t difference = static_cast<std::uint64_t>(values[j]) - product[j];
                out[j] = residue_of(static_cast<std::int64_t>(difference), moduli[i]);
            }
        }
    });
}

namespace {

// Remainders of words below 2^63: the quotient that is estimated is at most one too small.
class Divider {
  public:
    explicit Divider(std::uint64_t divisor) : divisor_(divisor), reciprocal_(~std::uint64_t{0} / divisor) {}
    std::uint64_t remainder(std::uint64_t x) const {
        const auto estimate = static_cast<std::uint64_t>((static_cast<u128>(x) * reciprocal_) >> 64);
        const std::uint64_t rest = x - estimate * divisor_;
        return rest >= divisor_ ? rest - divisor_ : rest;
    }

  private:
    std::uint64_t divisor_, reciprocal_;
};

std::uint64_t inverse_mod(std::uint64_t x, std::uint64_t modulus) {  // small ones
    x %= modulus;
    for (std::uint64_t y = 1; y < modulus; ++y) {
        if (x * y % modulus == 1) return y;
    }
    return 0;
}

// x q / W modulo q, rounded, for residues of x modulo the factors of W = 2^52 P.
class OperandSwitch {
  public:
    OperandSwitch(const std::vector<std::uint64_t>& moduli, std::uint64_t q)
        : q_(q), count_(moduli.size()), product_(product_of(moduli)), divider_(product_) {
        // x = 2^52 y + x_0 with y = (x - x_0) / 2^52 mod P, the sum of x_i w_i and x_0 w_0.
        for (std::size_t i = 1; i < count_; ++i) {
            const std::uint64_t rest = product_ / moduli[i];
            const std::uint64_t unit = rest * inverse_mod(rest, moduli[i]) % product_;  // 1 mod p_i, else 0
            weights_[i] = unit * inverse_mod(kBinaryModulus, moduli[i]) % product_;
            weights_[0] += product_ - weights_[i];
        }
        weights_[0] %= product_;
        shift_ = std::countl_zero(product_) - 32;
        const u128 one = 1;
        of_high_ = static_cast<std::uint64_t>((one << 95) / (product_ << shift_));
        of_low_ = count_ == 1 ? 0 : static_cast<std::uint64_t>((one << 64) / product_);
    }

    // Residue i of x at x[i pitch].
    std::uint64_t operator()(const std::uint64_t* x, std::size_t pitch) const {
        const std::uint64_t y = high_part(x, pitch);
        // x / W in units of 2^-64, less than 6 too small: then the quotient is right, but for one in 2048.
        std::uint64_t fraction = x[0] << (64 - kWordBits);
        if (count_ > 1) fraction = 2 * high(y << (32 + shift_), of_high_) + high(fraction, of_low_);
        const u128 scaled = static_cast<u128>(q_) * fraction + (u128{1} << 63);
        auto quotient = static_cast<std::uint64_t>(scaled >> 64);
        if (static_cast<std::uint64_t>(scaled) > ~(8 * q_)) quotient = exact(x[0], y);
        return quotient == q_ ? 0 : quotient;
    }

  private:
    static std::uint64_t high(std::uint64_t a, std::uint64_t b) {
        return static_cast<std::uint64_t>((static_cast<u128>(a) * b) >> 64);
    }
    static std::uint64_t product_of(const std::vector<std::uint64_t>& moduli) {
        std::uint64_t product = 1;
        for (std::size_t i = 1; i < moduli.size(); ++i) product *= moduli[i];
        return product;
    }

    std::uint64_t high_part(const std::uint64_t* x, std::size_t pitch) const {
        if (count_ == 1) return 0;
        std::uint64_t sum = divider_.remainder(x[0]) * weights_[0];
        for (std::size_t i = 1; i < count_; ++i) sum += x[i * pitch] * weights_[i];
        return divider_.remainder(sum);
    }

    std::uint64_t exact(std::uint64_t low, std::uint64_t y) const {
        const u128 whole = static_cast<u128>(q_) * y;
        const u128 rest = ((whole % product_) << kWordBits) + static_cast<u128>(q_) * low +
                          (static_cast<u128>(product_) << (kWordBits - 1));
        return static_cast<std::uint64_t>(whole / product_ + (rest >> kWordBits) / product_);
    }

    std::uint64_t q_;
    std::size_t count_;
    std::uint64_t product_;
    Divider divider_;
    std::uint64_t weights_[kMostOperandModuli] = {};
    int shift_ = 0;
    std::uint64_t of_high_ = 0, of_low_ = 0;
};

}  // namespace

void switch_operands(const std::uint64_t* x, std::size_t words, const std::vector<std::uint64_t>& moduli,
                     std::uint64_t q, std::uint64_t* r) {
    check_operand_moduli(moduli);
    const OperandSwitch switched(moduli, q);
    parallel_rows(1, words, 8, [&](std::size_t, std::size_t begin, std::size_t count) {
        for (std::size_t i = begin; i < begin + count; ++i) r[i] = switched(x + i, words);
    });
}

void encrypt_rows_public(const Context& context, const RowLayout& layout, const CiphertextView& public_key,
                         const RowRandomness& randomness, const RowMessages& messages, int limbs,
                         std::uint64_t* a, std::uint64_t* b) {
    const Kernels& k = kernels();
    const std::size_t n = layout.n, width = layout.width;
    const int threads = threads_for(layout.rows);
    const Workspaces workspaces(threads, 6, n, width);
    parallel_for(layout.rows, threads, [&](std::size_t row, int thread) {
        const auto words = [&](std::size_t i) { return workspaces.vector(thread, i); };
        const auto numbers = [&](std::size_t i) { return reinterpret_cast<std::int64_t*>(words(i)); };
        std::int64_t *const v = numbers(0), *const e1 = numbers(1), *const values = numbers(2);
        std::int64_t* const e0 = workspaces.row(thread);
        const RowMessages message{messages.matrix + row * width, messages.scale};
        const bool fits = fits_words(message, width);
        sample_ternary(v, randomness.ternary + row * randomness.ternary_count, randomness.ternary_count, n);
        sample_gaussian(e0, randomness.e0 + row * width, width);
        sample_gaussian(e1, randomness.e1 + row * n, n);
        for (int limb = 0; limb < limbs; ++limb) {
            const Modulus& m = context.modulus(limb);
            std::uint64_t *const factor = words(3), *const product = words(4), *const entries = words(5);
            const std::size_t place = static_cast<std::size_t>(limb) * layout.rows + row;
            k.from_signed(factor, v, n, m);
            k.ntt(factor, context.table(limb));
            k.mul(product, factor, public_key.limb(1, limb), n, m);
            k.intt(product, context.table(limb));
            k.from_signed(entries, e1, n, m);
            k.add(entries, entries, product, n, m);
            std::memcpy(a + place * n, entries, n * sizeof(std::uint64_t));
            k.mul(product, factor, public_key.limb(0, limb), n, m);
            k.intt(product, context.table(limb));
            gather(product, segment_of(layout, 0));
            encode_entries(message.matrix, message.scale, fits, e0, randomness.e0 + row * width, width,
                           values, m, entries);
            k.add(entries, entries, product, padded(width), m);
            std::memcpy(b + place * width, entries, width * sizeof(std::uint64_t));
        }
    });
}

void decrypt_rows(const Context& context, const RowLayout& layout, const SecretsView& secrets,
                  const std::uint64_t* a, const std::uint64_t* b, int limbs, double scale, double* out) {
    const std::size_t n = layout.n, width = layout.width, count = static_cast<std::size_t>(limbs);
    const Masks masks(context, layout, a, limbs);
    const int threads = threads_for(layout.rows);
    const Workspaces workspaces(threads, 3 * count + 1, n, 0);
    parallel_for(layout.rows, threads, [&](std::size_t row, int thread) {
        const auto words = [&](std::size_t i) { return workspaces.vector(thread, i); };
        std::vector<const std::uint64_t*> own(count), residues(count);
        for (std::size_t limb = 0; limb < count; ++limb) {
            own[limb] = masks.of_row(static_cast<int>(limb), row, words(limb));
            residues[limb] = words(count + limb);
        }
        std::uint64_t* const digits = words(2 * count);  // all but the first one
        std::uint64_t* const stored = digits;
        double* const centred = reinterpret_cast<double*>(words(3 * count));
        for (std::size_t c = 0; c < layout.segments(); ++c) {
            const Segment segment = segment_of(layout, c);
            const std::size_t length = padded(segment.count);
            for (std::size_t i = 0; i < count; ++i) {
                const int limb = static_cast<int>(i);
                std::uint64_t* const x = words(count + i);
                mask_product(context, layout, secrets, masks, own[i], limb, row, segment, x);
                std::memcpy(stored, b + (i * layout.rows + row) * width + segment.begin,
                            segment.count * sizeof(std::uint64_t));
                std::fill(stored + segment.count, stored + length, 0);
                kernels().add(x, x, stored, length, context.modulus(limb));
            }
            centre_residues(context, residues.data(), limbs, length, digits, centred);
            for (std::size_t j = 0; j < segment.count; ++j) {
                out[row * width + segment.begin + j] = centred[j] / scale;
            }
        }
    });
}

void encode_rows(const Context& context, const std::int64_t* coefficients, std::size_t rows,
                 const int* positions, int count, std::uint64_t* out) {
    const std::size_t n = context.n();
    parallel_for(rows, [&](std::size_t row) {
        encode_residues(context, coefficients + row * n, positions, count, false,
                        out + row * static_cast<std::size_t>(count) * n);
    });
}

void rows_to_ntt(const Context& context, const std::uint64_t* x, std::size_t rows, int limbs,
                 std::uint64_t* out) {
    const std::size_t n = context.n(), limb_count = static_cast<std::size_t>(limbs);
    parallel_for(limb_count * rows, [&](std::size_t i) {
        const std::size_t limb = i / rows, row = i % rows;
        std::uint64_t* const r = out + (row * limb_count + limb) * n;
        std::memcpy(r, x + i * n, n * sizeof(std::uint64_t));
        kernels().ntt(r, context.table(static_cast<int>(limb)));
    });
}

void rows_from_ntt(const Context& context, const std::uint64_t* x, std::size_t rows, int limbs,
                   std::uint64_t* out) {
    const std::size_t n = context.n(), limb_count = static_cast<std::size_t>(limbs);
    parallel_for(limb_count * rows, [&](std::size_t i) {
        const std::size_t limb = i / rows, row = i % rows;
        std::uint64_t* const r = out + i * n;
        std::memcpy(r, x + (row * limb_count + limb) * n, n * sizeof(std::uint64_t));
        kernels().intt(r, context.table(static_cast<int>(limb)));
    });
}

namespace {

// Calls body(limb, offset, count) for pieces of all limbs. The arrays need not be aligned: rows have any length.
template <typename Body>
void for_pieces(std::size_t words, int limbs, const Body& body) {
    parallel_rows(static_cast<std::size_t>(limbs), words, 1,
                  [&](std::size_t limb, std::size_t begin, std::size_t n) {
                      body(static_cast<int>(limb), limb * words + begin, n);
                  });
}

}  // namespace

void add_limbs(const Context& context, const std::uint64_t* x, const std::uint64_t* y, std::size_t words,
               int limbs, std::uint64_t* r) {
    for_pieces(words, limbs, [&](int limb, std::size_t offset, std::size_t count) {
        const Modulus m = context.modulus(limb);
        for (std::size_t i = offset; i < offset + count; ++i) r[i] = add_mod(x[i], y[i], m);
    });
}

void subtract_limbs(const Context& context, const std::uint64_t* x, const std::uint64_t* y, std::size_t words,
                    int limbs, std::uint64_t* r) {
    for_pieces(words, limbs, [&](int limb, std::size_t offset, std::size_t count) {
        const Modulus m = context.modulus(limb);
        for (std::size_t i = offset; i < offset + count; ++i) r[i] = sub_mod(x[i], y[i], m);
    });
}

namespace {

// Products with w modulo q by Shoup's quotient floor(w 2^64 / q), of any word: the estimate is at most one too small.
class ShoupFactor {
  public:
    ShoupFactor(std::uint64_t w, std::uint64_t q)
        : w_(w), q_(q), quotient_(static_cast<std::uint64_t>((static_cast<u128>(w) << 64) / q)) {}

    std::uint64_t times(std::uint64_t x) const {
        const std::uint64_t estimate = static_cast<std::uint64_t>((static_cast<u128>(x) * quotient_) >> 64);
        const std::uint64_t residue = x * w_ - estimate * q_;
        return residue >= q_ ? residue - q_ : residue;
    }

  private:
    std::uint64_t w_, q_, quotient_;
};

}  // namespace

void scale_limbs(const Context& context, const std::uint64_t* x, const std::uint64_t* factor,
                 std::size_t words, int limbs, std::uint64_t* r) {
    for_pieces(words, limbs, [&](int limb, std::size_t offset, std::size_t count) {
        const ShoupFactor w(factor[limb], context.modulus(limb).q);
        for (std::size_t i = offset; i < offset + count; ++i) r[i] = w.times(x[i]);
    });
}

void rescale_limbs(const Context& context, const std::uint64_t* x, std::size_t words, int limbs,
                   std::uint64_t* r) {
    const int kept = limbs - 1;
    const std::uint64_t dropped = context.modulus(kept).q;
    const std::uint64_t half = dropped / 2;
    const std::uint64_t* const last = x + static_cast<std::size_t>(kept) * words;
    for_pieces(words, kept, [&](int limb, std::size_t offset, std::size_t count) {
        const Modulus m = context.modulus(limb);
        const ShoupFactor inverse(inv_mod(dropped % m.q, m), m.q);
        const std::uint64_t lift = (half / m.q + 1) * m.q;  // a multiple of the prime above every remainder
        const std::size_t begin = static_cast<std::size_t>(limb) * words;
        for (std::size_t i = offset; i < offset + count; ++i) {
            const std::uint64_t y = last[i - begin];
            r[i] = inverse.times(x[i] + lift - y + (y > half ? dropped : 0));
        }
    });
}

}  // namespace cipherblas
