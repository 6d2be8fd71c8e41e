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
#include "rlwe/row_segments.h"

namespace cipherblas {
namespace {

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

// out = m + e modulo the prime for `count` entries. Messages beyond a word are reduced first: fmod is exact.
void encode_entries(const RowMessages& messages, bool fits, const std::int64_t* noise, std::size_t count,
                    std::int64_t* values, const Modulus& m, std::uint64_t* out) {
    const double q = static_cast<double>(m.q);
    if (fits) {
        for (std::size_t j = 0; j < count; ++j) {
            values[j] = static_cast<std::int64_t>(messages.rounded(j)) + noise[j];
        }
    } else {
        for (std::size_t j = 0; j < count; ++j) {
            values[j] = static_cast<std::int64_t>(std::fmod(messages.rounded(j), q)) + noise[j];
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
        const RowMessages message = messages.from(row * width);
        const bool fits = fits_words(message, width);
        sample_gaussian(noise, noise_words + row * width, width);
        for (int limb = 0; limb < limbs; ++limb) {
            const std::uint64_t* const own = masks.of_row(limb, row, mask);
            std::uint64_t* const out = b + (static_cast<std::size_t>(limb) * layout.rows + row) * width;
            for (std::size_t c = 0; c < layout.segments(); ++c) {
                const Segment segment = segment_of(layout, c);
                mask_product(context, layout, secrets, masks, own, limb, row, segment, product);
                encode_entries(message.from(segment.begin), fits, noise + segment.begin, segment.count,
                               values, context.modulus(limb), entries);
                kernels().sub(entries, entries, product, padded(segment.count), context.modulus(limb));
                std::memcpy(out + segment.begin, entries, segment.count * sizeof(std::uint64_t));
            }
        }
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
        const RowMessages message = messages.from(row * width);
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
            encode_entries(message, fits, e0, width, values, m, entries);
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
