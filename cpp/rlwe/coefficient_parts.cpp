#include "rlwe/coefficient_parts.h"

#include <array>
#include <bit>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "ring/bit_reverse.h"
#include "ring/kernels.h"
#include "ring/ntt.h"
#include "rlwe/baby_steps.h"
#include "rlwe/mod_down.h"

namespace cipherblas {
namespace {

constexpr std::size_t kMostParts = 8;

[[noreturn]] void fail(const std::string& what, const std::string& expected, const std::string& got) {
    throw std::invalid_argument(what + ": expected " + expected + ", got " + got);
}

// Of the automorphism that is the product of those over the ones of `number`.
std::uint64_t element(std::size_t n, int level, std::size_t number) {
    std::uint64_t found = 1;
    for (int j = 0; number >> j != 0; ++j) {
        if (number >> j & 1) found = found * (1 + (n >> (level + j))) % (2 * n);
    }
    return found;
}

// psi^exponent, for any exponent modulo 2^64.
std::uint64_t power_of_root(const NttTable& table, std::uint64_t exponent) {
    const std::uint64_t n = std::uint64_t{1} << table.log_n;
    const std::uint64_t place = exponent % (2 * n);
    const std::uint64_t found =
        table.roots.plain[bit_reverse(static_cast<std::uint32_t>(place % n), table.log_n)];
    return place < n ? found : table.modulus.q - found;
}

// The transforms of X^-e for every part, e = 2^level b. In a chunk of a limb, the transform of such a power and that of its
// automorphism differ by a number alone, and so do those of two chunks.
class Monomials {
  public:
    Monomials(const Context& context, const CoefficientParts& of, std::size_t chunk)
        : outputs_(static_cast<std::size_t>(of.outputs)),
          parts_(static_cast<std::size_t>(of.parts)),
          chunk_(chunk),
          limbs_(static_cast<std::size_t>(of.sources.front().limbs)),
          chunks_(context.n() / chunk),
          stride_(outputs_ * chunk + chunks_ * outputs_ * kMostParts),
          words_(Buffer::of_words((limbs_ + static_cast<std::size_t>(context.num_p())) * stride_)) {
        const std::size_t n = context.n();
        const int log_chunks = std::bit_width(chunks_) - 1;
        for (std::size_t row = 0; row < limbs_ + static_cast<std::size_t>(context.num_p()); ++row) {
            const int limb = static_cast<int>(
                row < limbs_ ? row : row - limbs_ + static_cast<std::size_t>(context.num_q()));
            const NttTable& table = context.table(limb);
            std::uint64_t* const words = words_.words() + row * stride_;
            std::uint64_t* at = words;
            for (std::uint64_t b = 0; b < outputs_; ++b) {
                fill(at, chunk, table, (std::uint64_t{0} - (b << of.level)) * 2 * chunks_);
                at += chunk;
            }
            std::uint64_t* const numbers = at;
            for (std::size_t c = 0; c < chunks_; ++c) {
                const std::uint64_t point =
                    2 * std::uint64_t{bit_reverse(static_cast<std::uint32_t>(c), log_chunks)} + 1;
                for (std::uint64_t b = 0; b < outputs_; ++b) {
                    const std::uint64_t exponent = std::uint64_t{0} - (b << of.level) * point;
                    for (std::size_t k = 0; k < kMostParts; ++k) {
                        *at++ = k < parts_ ? power_of_root(table, exponent * element(n, of.level, k)) : 0;
                    }
                }
            }
            for (std::uint64_t* word = numbers; word != at; ++word) {
                *word = times(*word, table.modulus.r2_mod_q, table.modulus);
            }
        }
    }

    // In Montgomery form, for a chunk; to be multiplied by the number of the chunk for the automorphism.
    const std::uint64_t* power(std::size_t row, std::size_t b) const {
        return words_.words() + row * stride_ + b * chunk_;
    }
    const std::uint64_t* numbers(std::size_t row, std::size_t chunk, std::size_t b) const {
        return words_.words() + row * stride_ + outputs_ * chunk_ + (chunk * outputs_ + b) * kMostParts;
    }

  private:
    // psi^(exponent bitrev(w)) at place w of so many: the second half of each power of two is the first one times a number.
    static void fill(std::uint64_t* out, std::size_t count, const NttTable& table, std::uint64_t exponent) {
        const Modulus& m = table.modulus;
        out[0] = m.r_mod_q;
        for (std::size_t half = 1; half < count; half *= 2) {
            const std::uint64_t number =
                times(power_of_root(table, exponent * (count / 2 / half)), m.r2_mod_q, m);
            for (std::size_t w = 0; w < half; ++w) out[half + w] = times(out[w], number, m);
        }
    }
    // The product of two residues and 2^-52.
    static std::uint64_t times(std::uint64_t x, std::uint64_t y, const Modulus& m) {
        return montgomery_reduce(u128{x} * y, m);
    }

    std::size_t outputs_, parts_, chunk_, limbs_, chunks_, stride_;
    Buffer words_;  // [row]: [b][chunk], then [chunk][b][automorphism]
};

}  // namespace

void check(const Context& context, const CoefficientParts& of) {
    if (of.sources.empty()) fail("sources", "at least one ciphertext", "none");
    const int limbs = of.sources.front().limbs;
    context.check_limbs(limbs);
    if (context.num_p() == 0) fail("keys", "a context with special primes", "none");
    for (const CiphertextView& source : of.sources) {
        if (source.components != 2) fail("sources", "2 components", std::to_string(source.components));
        if (source.limbs != limbs) {
            fail("sources", std::to_string(limbs) + " limbs", std::to_string(source.limbs));
        }
    }
    if (of.parts != 2 && of.parts != 4 && of.parts != 8) fail("parts", "2, 4 or 8", std::to_string(of.parts));
    if (of.outputs < 1 || of.outputs > of.parts) {
        fail("outputs", "1 to " + std::to_string(of.parts), std::to_string(of.outputs));
    }
    const int layers = std::bit_width(static_cast<unsigned>(of.parts)) - 1, log_n = context.log_n();
    if (log_n < layers + 2) {
        fail("parts", "at most " + std::to_string(context.n() / 4), std::to_string(of.parts));
    }
    if (of.level < 0 || of.level > log_n - 1 - layers) {
        fail("level", "0 to " + std::to_string(log_n - 1 - layers), std::to_string(of.level));
    }
    if (of.keys.size() != static_cast<std::size_t>(of.parts) - 1) {
        fail("keys", std::to_string(of.parts - 1), std::to_string(of.keys.size()));
    }
    for (const SwitchingKeyView& key : of.keys) {
        if (key.limbs < limbs) {
            fail("keys", "keys for at least " + std::to_string(limbs) + " limbs", std::to_string(key.limbs));
        }
    }
}

void run_coefficient_parts(const Context& context, const CoefficientParts& of, std::uint64_t* const* out) {
    check(context, of);
    const Kernels& kernel = kernels();
    const std::size_t n = context.n(), parts = static_cast<std::size_t>(of.parts);
    const std::size_t outputs = static_cast<std::size_t>(of.outputs);
    std::vector<Rotation> babies{{}};
    for (std::size_t k = 1; k < parts; ++k) {
        babies.push_back({element(n, of.level, k), static_cast<int>(k) - 1});
    }
    const TransformPlan plan = plan_of_babies(context, of.sources, babies, of.keys);
    const Decompositions decompositions = decompose(plan);
    const std::size_t kept = static_cast<std::size_t>(plan.kept), special = plan.dropped->sources().size();
    const std::size_t most = 2 * n / parts;  // within it the transforms of X^(2 N / parts) are equal
    const std::size_t chunk = BabyWorker::words_of_chunk(n, most);
    const Monomials monomials(context, of, chunk);
    // Part b of a component of the source that is rotated.
    const auto add_up = [&](const BabyWorker& worker, int limb, std::size_t row, std::size_t begin,
                            std::size_t b, std::size_t c, std::uint64_t* target) {
        const Modulus& m = context.modulus(limb);
        const std::uint64_t* const numbers = monomials.numbers(row, begin / chunk, b);
        std::array<std::uint64_t, kMostParts> factors;
        std::array<const std::uint64_t*, kMostParts> pointers;
        std::size_t count = 0;
        for (std::size_t k = 0; k < parts; ++k) {
            if (worker.vanishes(k)) continue;
            factors[count] = numbers[k];
            pointers[count++] = worker.rotated(k, c);
        }
        kernel.scaled_sum(target, pointers.data(), factors.data(), static_cast<int>(count), nullptr, 0, chunk,
                          m);
        if (b > 0) kernel.mul_mont(target, target, monomials.power(row, b), chunk, m);
    };

    // Rows: the components of all parts of all sources.
    const std::size_t rows = of.sources.size() * outputs * 2;
    const auto number = [&](std::size_t s, std::size_t b, std::size_t c) {
        return (s * outputs + b) * 2 + c;
    };
    const Buffer sums = Buffer::of_words(rows * special * n);
    for_each_chunk(
        plan, decompositions, special_rows(plan), parts, most, [](int, int) {},
        [&](const BabyWorker& worker, int, int limb, std::size_t row, std::size_t s, std::size_t begin) {
            for (std::size_t b = 0; b < outputs; ++b) {
                for (std::size_t c = 0; c < 2; ++c) {
                    add_up(worker, limb, row, begin, b, c,
                           sums.words() + (number(s, b, c) * special + row - kept) * n + begin);
                }
            }
        });
    std::vector<const std::uint64_t*> dropped;
    for (std::size_t i = 0; i < rows * special; ++i) dropped.push_back(sums.words() + i * n);
    const DroppedRows negatives(context, *plan.dropped, rows, dropped.data());

    // Their transforms at all limbs are begun in the result: what is converted is read once.
    const std::vector<int> kept_limbs = kept_rows(plan);
    const auto result = [&](std::size_t s, std::size_t b, std::size_t c, std::size_t row) {
        return out[s * outputs + b] + (c * kept + row) * n;
    };
    parallel_for(rows, threads_for(rows), [&](std::size_t i, int) {
        const std::size_t b = i / 2 % outputs;
        std::vector<std::uint64_t*> targets;
        for (std::size_t row = 0; row < kept; ++row) {
            targets.push_back(result(i / 2 / outputs, b, i % 2, row));
        }
        negatives.convert(i, kept_limbs, targets.data());
    });
    // They end, part by part, where the sums are added.
    const std::size_t part = n / static_cast<std::size_t>(kernel.ntt_parts(context.log_n()));
    const std::size_t room = (rows + 2) * part;
    const Buffer memory = Buffer::of_words(static_cast<std::size_t>(threads_for(kept)) * room);
    for_each_chunk(
        plan, decompositions, kept_limbs, parts, most, [](int, int) {},
        [&](const BabyWorker& worker, int thread, int limb, std::size_t row, std::size_t s,
            std::size_t begin) {
            std::uint64_t* const words = memory.words() + static_cast<std::size_t>(thread) * room;
            std::uint64_t* const work[2] = {words + rows * part, words + (rows + 1) * part};
            const std::size_t within = begin % part;
            for (std::size_t b = 0; b < outputs; ++b) {
                std::uint64_t* sums[2];
                std::uint64_t* results[2];
                for (std::size_t c = 0; c < 2; ++c) {
                    sums[c] = words + number(s, b, c) * part;
                    results[c] = result(s, b, c, row) + begin - within;
                    add_up(worker, limb, row, begin, b, c, sums[c] + within);
                }
                if (within + chunk < part) continue;
                kernel.ntt_part_add_mul_scalar(results, sums, results, work, 2, plan.dropped->inverse(limb),
                                               static_cast<int>(begin / part), false, {},
                                               context.table(limb));
            }
        });
}

}  // namespace cipherblas
