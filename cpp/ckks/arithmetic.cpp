#include "ckks/arithmetic.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "ring/kernels.h"
#include "ring/pool.h"
#include "ring/threads.h"
#include "rlwe/mod_down.h"
#include "rlwe/transform.h"

namespace cipherblas {
namespace {

// body(component, limb, offset, words) over all limbs of a ciphertext.
template <typename Body>
void for_each_limb(const CiphertextSpan& out, const Body& body) {
    const std::size_t limbs = static_cast<std::size_t>(out.limbs);
    parallel_rows(static_cast<std::size_t>(out.components) * limbs, out.n, 1,
                  [&](std::size_t row, std::size_t offset, std::size_t count) {
                      body(static_cast<int>(row / limbs), static_cast<int>(row % limbs), offset, count);
                  });
}

}  // namespace

void add(const Context& context, const CiphertextView& x, const CiphertextView& y,
         const CiphertextSpan& out) {
    const Kernels& k = kernels();
    for_each_limb(out, [&](int c, int i, std::size_t offset, std::size_t count) {
        std::uint64_t* const r = out.limb(c, i) + offset;
        if (c < x.components && c < y.components) {
            k.add(r, x.limb(c, i) + offset, y.limb(c, i) + offset, count, context.modulus(i));
        } else {
            std::memcpy(r, (c < x.components ? x : y).limb(c, i) + offset, count * sizeof(std::uint64_t));
        }
    });
}

void subtract(const Context& context, const CiphertextView& x, const CiphertextView& y,
              const CiphertextSpan& out) {
    const Kernels& k = kernels();
    for_each_limb(out, [&](int c, int i, std::size_t offset, std::size_t count) {
        std::uint64_t* const r = out.limb(c, i) + offset;
        if (c < x.components && c < y.components) {
            k.sub(r, x.limb(c, i) + offset, y.limb(c, i) + offset, count, context.modulus(i));
        } else if (c < x.components) {
            std::memcpy(r, x.limb(c, i) + offset, count * sizeof(std::uint64_t));
        } else {
            k.neg(r, y.limb(c, i) + offset, count, context.modulus(i));
        }
    });
}

void negate(const Context& context, const CiphertextView& x, const CiphertextSpan& out) {
    const Kernels& k = kernels();
    for_each_limb(out, [&](int c, int i, std::size_t offset, std::size_t count) {
        k.neg(out.limb(c, i) + offset, x.limb(c, i) + offset, count, context.modulus(i));
    });
}

void add_plain(const Context& context, const CiphertextView& x, const PolynomialView& plaintext,
               const CiphertextSpan& out) {
    const Kernels& k = kernels();
    for_each_limb(out, [&](int c, int i, std::size_t offset, std::size_t count) {
        std::uint64_t* const r = out.limb(c, i) + offset;
        if (c == 0) {
            k.add(r, x.limb(c, i) + offset, plaintext.limb(i) + offset, count, context.modulus(i));
        } else {
            std::memcpy(r, x.limb(c, i) + offset, count * sizeof(std::uint64_t));
        }
    });
}

void multiply_plain(const Context& context, const CiphertextView& x, const PolynomialView& plaintext,
                    const CiphertextSpan& out) {
    const Kernels& k = kernels();
    for_each_limb(out, [&](int c, int i, std::size_t offset, std::size_t count) {
        k.mul_mont(out.limb(c, i) + offset, x.limb(c, i) + offset, plaintext.limb(i) + offset, count,
                   context.modulus(i));
    });
}

void multiply_scalar(const Context& context, const CiphertextView& x,
                     const std::vector<std::uint64_t>& residues, const CiphertextSpan& out) {
    const Kernels& k = kernels();
    for_each_limb(out, [&](int c, int i, std::size_t offset, std::size_t count) {
        k.mul_scalar(out.limb(c, i) + offset, x.limb(c, i) + offset, residues[static_cast<std::size_t>(i)],
                     count, context.modulus(i));
    });
}

void scaled_sums(const Context& context, const std::vector<ScaledSum>& sums) {
    constexpr std::size_t kChunk = 1024;   // words, of a sum that stays in the first-level cache
    constexpr std::size_t kMaxTerms = 64;  // of the kernel
    const Kernels& k = kernels();
    std::size_t components = 0, limbs = 0, terms = 0;
    for (const ScaledSum& sum : sums) {
        components = std::max(components, static_cast<std::size_t>(sum.out.components));
        limbs = std::max(limbs, static_cast<std::size_t>(sum.out.limbs));
        terms += sum.terms.size();
    }
    // The chunk of a term that several sums read is in a cache when the second one does.
    const auto add_up = [&](const ScaledSum& sum, int c, int i, std::size_t offset, std::size_t words) {
        const Modulus& m = context.modulus(i);
        const std::size_t limb = static_cast<std::size_t>(i);
        alignas(64) std::uint64_t part[kChunk];
        std::uint64_t* const total = sum.out.limb(c, i) + offset;
        std::array<const std::uint64_t*, kMaxTerms> x;
        std::array<std::uint64_t, kMaxTerms> factors;
        for (std::size_t first = 0; first < sum.terms.size(); first += x.size()) {
            const std::size_t count = std::min(x.size(), sum.terms.size() - first);
            for (std::size_t t = 0; t < count; ++t) {
                x[t] = sum.terms[first + t].limb(c, i) + offset;
                factors[t] = to_montgomery(sum.residues[first + t][limb], m);
            }
            const bool shifts = first == 0 && c == 0 && sum.constant[limb] != 0;
            if (shifts) std::fill_n(part, words, std::uint64_t{1});
            k.scaled_sum(first == 0 ? total : part, x.data(), factors.data(), static_cast<int>(count),
                         shifts ? part : nullptr, to_montgomery(sum.constant[limb], m), words, m);
            if (first > 0) k.add(total, total, part, words, m);
        }
    };
    parallel_rows(components * limbs, context.n(), terms,
                  [&](std::size_t row, std::size_t offset, std::size_t count) {
                      const int c = static_cast<int>(row / limbs), i = static_cast<int>(row % limbs);
                      for (std::size_t start = 0; start < count; start += kChunk) {
                          const std::size_t words = std::min(kChunk, count - start);
                          for (const ScaledSum& sum : sums) {
                              if (c < sum.out.components && i < sum.out.limbs) {
                                  add_up(sum, c, i, offset + start, words);
                              }
                          }
                      }
                  });
}

namespace {

// Slices of so many words of a limb, of so many terms divided by the lists of left factors, are copied to one place that stays
// in the core's own cache, while the right factors come from memory: where ciphertexts lie, at equal places of huge pages, they
// crowd a few sets of it.
constexpr std::size_t kTerms = 128, kSliceWords = 512;
constexpr std::size_t kApart = 8;  // words between copies of slices

// Where the terms of a sum of products have limb i, from word `offset` on: the components of the left factors, then those
// of the right ones.
void point(std::vector<const std::uint64_t*>& pointers, const std::vector<CiphertextView>& lefts,
           const std::vector<CiphertextView>& rights, int i, std::size_t offset) {
    const std::size_t count = lefts.size();
    for (std::size_t t = 0; t < count; ++t) {
        for (int c = 0; c < 2; ++c) {
            const std::size_t component = static_cast<std::size_t>(c);
            pointers[component * count + t] = lefts[t].limb(c, i) + offset;
            pointers[(2 + component) * count + t] = rights[t].limb(c, i) + offset;
        }
    }
}

// Copies of slices of the components of some terms: [component][term].
class Slices {
  public:
    Slices(std::uint64_t* words, std::size_t length) : words_(words), stride_(length + kApart) {}

    static std::size_t words(std::size_t terms, std::size_t length) { return 2 * terms * (length + kApart); }

    void copy(const CiphertextView* terms, std::size_t count, int limb, std::size_t offset,
              std::size_t length) {
        for (std::size_t c = 0; c < 2; ++c) {
            for (std::size_t t = 0; t < count; ++t) {
                std::memcpy(words_ + (c * count + t) * stride_,
                            terms[t].limb(static_cast<int>(c), limb) + offset,
                            length * sizeof(std::uint64_t));
            }
        }
    }
    // The components of one after those of another.
    void point(const std::uint64_t** pointers, std::size_t count) const {
        for (std::size_t k = 0; k < 2 * count; ++k) pointers[k] = words_ + k * stride_;
    }

  private:
    std::uint64_t* words_;
    std::size_t stride_;
};

// `count` sums of products for each of some lists of left factors, times a residue for each limb: [line][output].
void add_products(const Context& context, const std::vector<CiphertextView>* lefts, std::size_t lines,
                  const std::vector<CiphertextView>* rights, std::size_t count,
                  const std::vector<std::uint64_t>& factors, const CiphertextSpan* sums) {
    const Kernels& k = kernels();
    const std::size_t terms = lefts->size(), together = std::min(terms, kTerms / std::bit_ceil(lines));
    const std::size_t slice = kSliceWords, room = Slices::words(together, slice);
    parallel_rows(
        static_cast<std::size_t>(sums[0].limbs), context.n(), 4 * terms * count * lines,
        [&](std::size_t row, std::size_t begin, std::size_t length) {
            const int i = static_cast<int>(row);
            const Modulus& m = context.modulus(i);
            const Buffer memory = Buffer::workspace_of_words((lines + 1) * room);
            std::vector<Slices> copies;
            for (std::size_t line = 0; line <= lines; ++line) {
                copies.emplace_back(memory.words() + line * room, slice);
            }
            std::vector<const std::uint64_t*> pointers(4 * together);
            const std::uint64_t** const p = pointers.data();
            const auto add = [&](std::size_t offset, std::size_t words, std::size_t first, std::size_t held) {
                for (std::size_t line = 0; line < lines; ++line) {
                    copies[line].copy(&lefts[line][first], held, i, offset, words);
                }
                for (std::size_t o = 0; o < count; ++o) {
                    const CiphertextView* const right = &rights[o][first];
                    if (lines > 1) {
                        copies[lines].copy(right, held, i, offset, words);
                        copies[lines].point(p + 2 * held, held);
                    } else {  // what is read once
                        for (std::size_t t = 0; t < 2 * held; ++t) {
                            p[2 * held + t] = right[t % held].limb(static_cast<int>(t / held), i) + offset;
                        }
                    }
                    for (std::size_t line = 0; line < lines; ++line) {
                        copies[line].point(p, held);
                        const CiphertextSpan& sum = sums[line * count + o];
                        std::uint64_t* const parts[3] = {sum.limb(0, i) + offset, sum.limb(1, i) + offset,
                                                         sum.limb(2, i) + offset};
                        k.multiply_sum(parts[0], parts[1], parts[2], p, p + held, p + 2 * held, p + 3 * held,
                                       held, first > 0, false, words, m);
                        if (factors.empty() || first + held < terms) continue;
                        for (std::uint64_t* const part : parts)
                            k.mul_scalar(part, part, factors[row], words, m);
                    }
                }
            };
            for (std::size_t done = 0; done < length; done += slice) {
                for (std::size_t first = 0; first < terms; first += together) {
                    add(begin + done, std::min(slice, length - done), first,
                        std::min(together, terms - first));
                }
            }
        });
}

}  // namespace

void multiply_sum(const Context& context, const std::vector<CiphertextView>& lefts,
                  const std::vector<CiphertextView>& rights, bool accumulate, const CiphertextSpan& out) {
    const Kernels& k = kernels();
    const std::size_t count = lefts.size();
    const bool bypass = bypasses_caches(3 * static_cast<std::size_t>(out.limbs) * out.n);
    parallel_rows(static_cast<std::size_t>(out.limbs), out.n, 4 * count,
                  [&](std::size_t row, std::size_t offset, std::size_t words) {
                      const int i = static_cast<int>(row);
                      std::vector<const std::uint64_t*> pointers(4 * count);
                      point(pointers, lefts, rights, i, offset);
                      const std::uint64_t* const* p = pointers.data();
                      k.multiply_sum(out.limb(0, i) + offset, out.limb(1, i) + offset,
                                     out.limb(2, i) + offset, p, p + count, p + 2 * count, p + 3 * count,
                                     count, accumulate, bypass, words, context.modulus(i));
                  });
}

void relinearised_sums(const Context& context, const std::vector<std::vector<CiphertextView>>& lefts,
                       const std::vector<std::vector<CiphertextView>>& rights,
                       const std::vector<std::uint64_t>& factors, const SwitchingKeyView& key,
                       const std::vector<CiphertextSpan>& outs) {
    if (outs.empty()) return;
    const std::size_t outputs = rights.size();
    const int limbs = lefts.front().front().limbs;
    const std::size_t n = context.n();
    const std::size_t together = std::min(kLinesTogether, lefts.size());
    const std::size_t blocks = (lefts.size() + together - 1) / together;
    // Fewer groups of outputs than threads are made one by one, with all threads each.
    const std::size_t share = kSumsTogether / static_cast<std::size_t>(thread_count());
    const std::size_t each = std::min(std::max<std::size_t>(share, 1), outputs);
    const std::size_t groups = (outputs + each - 1) / each * blocks;
    const int threads = groups < static_cast<std::size_t>(thread_count()) ? 1 : threads_for(groups);
    std::vector<CiphertextSpan> sums;
    std::vector<Buffer> memory;
    for (std::size_t t = 0; t < each * together * static_cast<std::size_t>(threads); ++t) {
        memory.push_back(Buffer::of_words(3, limbs, n));
        sums.push_back({memory.back().words(), 3, limbs, n});
    }
    const std::ptrdiff_t stride = static_cast<std::ptrdiff_t>(n);
    parallel_for(groups, threads, [&](std::size_t group, int thread) {
        const std::size_t first = group / blocks * each, count = std::min(each, outputs - first);
        const std::size_t line = group % blocks * together, lines = std::min(together, lefts.size() - line);
        const CiphertextSpan* const own = &sums[static_cast<std::size_t>(thread) * each * together];
        add_products(context, &lefts[line], lines, &rights[first], count, factors, own);
        for (std::size_t sum = 0; sum < lines * count; ++sum) {
            relinearise(context, {own[sum].data, 3, limbs, limbs * stride, stride}, key, false,
                        outs[(line + sum / count) * outputs + first + sum % count].data);
        }
    });
}

void multiply_plain_sum(const Context& context, const std::vector<FactorView>& plaintexts,
                        const std::vector<CiphertextView>& ciphertexts, bool accumulate,
                        const CiphertextSpan& out) {
    const Kernels& k = kernels();
    const std::size_t count = plaintexts.size();
    parallel_rows(static_cast<std::size_t>(out.limbs), out.n, 2 * count,
                  [&](std::size_t row, std::size_t offset, std::size_t words) {
                      const int i = static_cast<int>(row);
                      const Modulus& m = context.modulus(i);
                      std::vector<const void*> factors(count);
                      std::vector<const std::uint64_t*> pointers(2 * count);
                      for (std::size_t t = 0; t < count; ++t) {
                          factors[t] = plaintexts[t].at(context, i, offset);
                          pointers[t] = ciphertexts[t].limb(0, i) + offset;
                          pointers[count + t] = ciphertexts[t].limb(1, i) + offset;
                      }
                      const std::uint64_t* const* p = pointers.data();
                      k.multiply_plain_sum(out.limb(0, i) + offset, out.limb(1, i) + offset, factors.data(),
                                           halves_of(m.bits), 1, p, p + count, count, accumulate, words, m);
                  });
}

void weighted_sums(const Context& context, const std::vector<WeightBlock>& blocks, std::size_t width,
                   const std::vector<CiphertextView>& ciphertexts, const std::vector<CiphertextSpan>& outs) {
    const Kernels& k = kernels();
    const std::size_t pieces = context.n() / width;
    const std::size_t limbs = static_cast<std::size_t>(outs.front().limbs);
    std::size_t longest = 0;
    for (const WeightBlock& block : blocks) longest = std::max(longest, block.terms.size());
    parallel_for(limbs * pieces, [&](std::size_t task) {
        const int i = static_cast<int>(task / pieces);
        const std::size_t offset = task % pieces * width;
        std::vector<const void*> factors(longest);
        std::vector<const std::uint64_t*> pointers(2 * longest);
        const std::size_t halves = halves_of(context.modulus(i).bits);
        const std::size_t before = context.halves_before(i) * context.n() + offset * halves;  // of one term
        for (std::size_t b = 0; b < blocks.size(); ++b) {
            const std::size_t count = blocks[b].terms.size();
            for (std::size_t t = 0; t < count; ++t) {
                const CiphertextView& ct = ciphertexts[blocks[b].terms[t]];
                factors[t] = blocks[b].halves + before * count + t * width * halves;
                pointers[t] = ct.limb(0, i) + offset;
                pointers[count + t] = ct.limb(1, i) + offset;
            }
            const std::uint64_t* const* p = pointers.data();
            k.multiply_plain_sum(outs[b].limb(0, i) + offset, outs[b].limb(1, i) + offset, factors.data(),
                                 halves, 1, p, p + count, count, false, width, context.modulus(i));
        }
    });
}

void polynomial_sums(const Context& context, const std::int64_t* coefficients, std::size_t count,
                     const std::vector<CiphertextView>& ciphertexts,
                     const std::vector<CiphertextSpan>& outs) {
    constexpr std::size_t kPiece = 1024;  // words of a transform
    constexpr std::size_t kTogether =
        16;  // terms whose transforms and pieces stay in a cache for all outputs
    // Between copies of pieces: those of ciphertexts lie at distances at which they crowd a few sets of the caches.
    constexpr std::size_t kApart = 136;
    const Kernels& k = kernels();
    const std::size_t n = context.n(), terms = ciphertexts.size();
    const std::size_t limbs = static_cast<std::size_t>(outs.front().limbs);
    const std::size_t width = std::min(n, std::max(kPiece, count)), pieces = n / width;
    const std::size_t together = std::min(terms, kTogether), stride = width + kApart;
    const std::size_t tasks = limbs * pieces;
    const int threads = threads_for_work(tasks, outs.size() * terms * limbs * n);
    std::vector<Buffer> memory;
    for (int t = 0; t < threads; ++t) {
        memory.push_back(Buffer::workspace_of_words(together * (width + count + 2 * stride)));
    }
    parallel_for(tasks, threads, [&](std::size_t task, int thread) {
        const int i = static_cast<int>(task / pieces);
        const std::size_t offset = task % pieces * width;
        const Modulus& modulus = context.modulus(i);
        std::uint64_t* const scratch = memory[static_cast<std::size_t>(thread)].words();
        std::uint64_t* const residues = scratch + together * width;
        std::uint64_t* const copies = residues + together * count;
        const std::uint64_t* pointers[3 * kTogether];
        for (std::size_t first = 0; first < terms; first += together) {
            const std::size_t held = std::min(together, terms - first);
            for (std::size_t t = 0; t < held; ++t) {
                pointers[t] = residues + t * count;
                for (std::size_t c = 0; c < 2; ++c) {
                    std::uint64_t* const copy = copies + (c * held + t) * stride;
                    const std::uint64_t* const from = ciphertexts[first + t].limb(static_cast<int>(c), i);
                    std::memcpy(copy, from + offset, width * sizeof(std::uint64_t));
                    pointers[(c + 1) * held + t] = copy;
                }
            }
            for (std::size_t o = 0; o < outs.size(); ++o) {
                k.from_signed(residues, coefficients + (o * terms + first) * count, held * count, modulus);
                k.mul_scalar(residues, residues, modulus.r_mod_q, held * count, modulus);
                k.multiply_short_sum(outs[o].limb(0, i) + offset, outs[o].limb(1, i) + offset, pointers,
                                     count, pointers + held, pointers + 2 * held, held, first > 0, offset,
                                     width, scratch, context.table(i));
            }
        }
    });
}

void rescale(const Context& context, const CiphertextView& x, int count, const CiphertextSpan& out) {
    const int kept = x.limbs - count;
    std::vector<const std::uint64_t*> dropped, kept_limbs;
    std::vector<std::uint64_t*> out_limbs;
    for (int c = 0; c < x.components; ++c) {
        for (int i = kept; i < x.limbs; ++i) dropped.push_back(x.limb(c, i));
        for (int i = 0; i < kept; ++i) {
            kept_limbs.push_back(x.limb(c, i));
            out_limbs.push_back(out.limb(c, i));
        }
    }
    mod_down(context, context.conversion(kept, count, false), x.components, kept, dropped.data(),
             kept_limbs.data(), out_limbs.data());
}

}  // namespace cipherblas
