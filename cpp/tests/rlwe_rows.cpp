// Rows by coefficients: transposition, relinearisation and hoisted switches, bit for bit what the transforms
// of whole ciphertexts (rlwe/transform.h) and direct sums give.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>
#include <stdexcept>

#include "arith/primes.h"
#include "ring/kernels.h"
#include "ring/row_transform.h"
#include "ring/threads.h"
#include "rlwe/transform.h"
#include "rlwe/transpose.h"

namespace cipherblas {
namespace {

using Words = AlignedVector<std::uint64_t>;

// Rows with random residues: identities of bits need no encryption. INSECURE.
class Toy {
  public:
    Toy(std::size_t n, int q_limbs, int special, int alpha, int used)
        : context(make(n, q_limbs, special, alpha)), limbs(used) {}

    std::size_t n() const { return context.n(); }
    std::size_t count() const { return static_cast<std::size_t>(limbs); }
    const Modulus& modulus(std::size_t i) const { return context.modulus(static_cast<int>(i)); }

    Words rows(std::size_t rows) {  // [limbs][rows][n]
        Words words(count() * rows * n());
        for (std::size_t i = 0; i < words.size(); ++i) words[i] = random() % modulus(i / (rows * n())).q;
        return words;
    }
    RowsView view(const Words& words, std::size_t rows, std::size_t columns) const {
        return {words.data(), static_cast<std::ptrdiff_t>(rows * columns),
                static_cast<std::ptrdiff_t>(columns)};
    }
    void make_keys(std::size_t keys) {
        for (std::size_t k = 0; k < keys; ++k) {
            const std::size_t limb_rows = static_cast<std::size_t>(context.basis().size());
            const std::size_t digits = static_cast<std::size_t>(context.digits(context.num_q()));
            Words& key = storage_.emplace_back(digits * 2 * limb_rows * n());
            for (std::size_t i = 0; i < key.size(); ++i) {
                key[i] = random() % modulus(i / n() % limb_rows).q;
            }
        }
        for (const Words& key : storage_) views.emplace_back(context, key.data(), context.num_q());
    }

    // (b, a) of one row, [component][limbs][n] by coefficients, after X -> X^galois and the switch with a
    // key.
    Words switched(Words ciphertext, std::uint64_t galois, int key) const {
        for (std::size_t i = 0; i < 2 * count(); ++i) {
            kernels().ntt(&ciphertext[i * n()], context.table(static_cast<int>(i % count())));
        }
        const std::ptrdiff_t stride = static_cast<std::ptrdiff_t>(n());
        Transform transform;
        transform.limbs = limbs;
        transform.outputs = 1;
        transform.sources = {{ciphertext.data(), 2, limbs, limbs * stride, stride}};
        transform.terms = {{0, 0, galois, key, -1}};
        transform.keys = views;
        Words result(ciphertext.size());
        std::uint64_t* const out = result.data();
        run_transform(context, transform, TransformOrder::kRotation, &out);
        for (std::size_t i = 0; i < 2 * count(); ++i) {
            kernels().intt(&result[i * n()], context.table(static_cast<int>(i % count())));
        }
        return result;
    }
    // Rows [component][limbs][n] of matrices [limbs][rows][n].
    Words gather(const Words& b, const Words& a, std::size_t rows, std::size_t row) const {
        Words ciphertext(2 * count() * n());
        for (std::size_t i = 0; i < 2 * count(); ++i) {
            const Words& from = i < count() ? b : a;
            std::copy_n(&from[(i % count() * rows + row) * n()], n(), &ciphertext[i * n()]);
        }
        return ciphertext;
    }

    std::mt19937_64 random{11};
    Context context;
    int limbs;
    std::vector<SwitchingKeyView> views;

  private:
    static Context make(std::size_t n, int q_limbs, int special, int alpha) {
        const std::vector<std::uint64_t> primes = primes_below(n, 49, q_limbs + special);
        return {
            n, {primes.begin(), primes.begin() + q_limbs}, {primes.begin() + q_limbs, primes.end()}, alpha};
    }
    std::vector<Words> storage_;
};

// sums[.] += X^shift x, for all limbs of a ciphertext.
void add_shifted(const Toy& toy, Words& sum, const Words& x, std::size_t shift) {
    const std::size_t n = toy.n();
    for (std::size_t i = 0; i < x.size(); ++i) {
        const Modulus& m = toy.modulus(i / n % toy.count());
        const std::size_t place = (i % n + shift) % (2 * n);
        std::uint64_t& to = sum[i / n * n + place % n];
        to = place < n ? add_mod(to, x[i], m) : sub_mod(to, x[i], m);
    }
}

// The formulas of rlwe/transpose.h, row by row.
std::vector<Words> direct_transposition(const Toy& toy, const TransposePlan& plan, const Words& b,
                                        const Words& a, std::size_t rows) {
    const std::size_t d = std::size_t{1} << plan.log_rows;
    const std::size_t scale = toy.n() / d;
    std::vector<Words> in, out(d, Words(2 * toy.count() * toy.n()));
    for (std::size_t i = 0; i < rows; ++i) {
        in.push_back(toy.gather(b, a, rows, i));
        for (std::size_t w = 0; w < in[i].size(); ++w) {
            const Modulus& m = toy.modulus(w / toy.n() % toy.count());
            in[i][w] = mul_mod(in[i][w], inv_mod(d, m), m);
        }
    }
    for (std::size_t p = 0; p < d; ++p) {
        const std::uint64_t u = row_exponent(p, plan.log_rows);
        Words h(out[0].size());
        for (std::size_t i = 0; i < rows; ++i) add_shifted(toy, h, in[i], u * i % (2 * d) * scale);
        std::uint64_t v = 1;
        for (const int step : plan.steps[p]) {
            const std::uint64_t element = plan.elements[static_cast<std::size_t>(step)];
            h = toy.switched(h, element, step);
            v = v * element % (2 * d);
        }
        EXPECT_EQ(u * v % (2 * d), 1u);
        for (std::size_t j = 0; j < d; ++j) {
            add_shifted(toy, out[j], h, (2 * d - v * j % (2 * d)) * scale);
        }
    }
    return out;
}

// On `threads` threads; what it is compared with is made on one.
void expect_transposition(Toy& toy, std::size_t d, std::size_t rows, TransposePolicy policy, int threads) {
    const TransposePlan plan(std::countr_zero(d), policy);
    toy.make_keys(plan.elements.size());
    const Words a = toy.rows(rows), b = toy.rows(rows);
    const std::size_t stride = toy.n() / d;
    Words kept(toy.count() * rows * d);  // what is given of b: the rest of it must not matter
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = b[i * stride];
    Words out_a(toy.count() * d * toy.n()), out_b(toy.count() * d * d);
    set_thread_count(threads);
    transpose_rows(toy.context, plan, toy.limbs, rows, toy.view(a, rows, toy.n()), toy.view(kept, rows, d),
                   toy.views, out_a.data(), out_b.data());
    set_thread_count(1);
    const std::vector<Words> expected = direct_transposition(toy, plan, b, a, rows);
    for (std::size_t i = 0; i < toy.count(); ++i) {
        for (std::size_t j = 0; j < d; ++j) {
            for (std::size_t c = 0; c < toy.n(); ++c) {
                ASSERT_EQ(out_a[(i * d + j) * toy.n() + c], expected[j][(toy.count() + i) * toy.n() + c])
                    << "a, d " << d << " limb " << i << " row " << j;
            }
            for (std::size_t c = 0; c < d; ++c) {
                ASSERT_EQ(out_b[(i * d + j) * d + c], expected[j][i * toy.n() + c * stride])
                    << "b, d " << d << " limb " << i << " row " << j;
            }
        }
    }
}

constexpr TransposePolicy kPolicies[] = {TransposePolicy::kFast, TransposePolicy::kLight,
                                         TransposePolicy::kBinary};

TEST(TransposeRows, IsTheDirectSumOnAnyNumberOfThreads) {
    const int threads = thread_count();
    for (const TransposePolicy policy : kPolicies) {
        const int used = 1 + static_cast<int>(policy);
        for (const std::size_t d : {8u, 64u}) {
            Toy whole(64, 1, 1, 1, 1);
            expect_transposition(whole, d, d, policy, used);
            Toy digits(64, 3, 2, 2, 3);
            expect_transposition(digits, d, d / 2 + 1, policy, used);
        }
        Toy large(2048, 2, 1, 1, 1);
        expect_transposition(large, 8, 5, policy, used);
        Toy wide(2048, 2, 2, 2, 2);
        expect_transposition(wide, 16, 16, policy, used);
    }
    set_thread_count(threads);
}

TEST(TransposePlan, CountsKeysAndSwitches) {
    for (int log_d = 3; log_d <= 12; ++log_d) {
        const std::size_t d = std::size_t{1} << log_d, base = std::size_t{1} << (log_d + 1) / 2;
        const TransposePlan fast(log_d, TransposePolicy::kFast), light(log_d, TransposePolicy::kLight),
            binary(log_d, TransposePolicy::kBinary);
        EXPECT_EQ(fast.elements.size(), d - 1);
        EXPECT_EQ(fast.switches(), d - 1);
        EXPECT_EQ(light.elements.size(), base + d / base - 2);
        EXPECT_EQ(light.switches(), 2 * d - d / base - base);
        EXPECT_EQ(binary.elements.size(), static_cast<std::size_t>(log_d));
        EXPECT_EQ(binary.switches(), d / 2 * static_cast<std::size_t>(log_d));
    }
    EXPECT_EQ(transpose_policy("light"), TransposePolicy::kLight);
    EXPECT_THROW(transpose_policy("Fast"), std::invalid_argument);
}

TEST(RelineariseRows, AddsBToTheSwitchedRows) {
    Toy toy(256, 3, 2, 2, 2);
    toy.make_keys(1);
    const std::size_t rows = 5;
    const Words a = toy.rows(rows), b = toy.rows(rows);
    const Words none(a.size());
    Words out_a(a.size()), out_b(a.size());
    relinearise_rows(toy.context, toy.limbs, rows, toy.view(a, rows, toy.n()), toy.view(b, rows, toy.n()),
                     toy.views[0], out_a.data(), out_b.data());
    for (std::size_t row = 0; row < rows; ++row) {
        Words expected = toy.switched(toy.gather(none, a, rows, row), 1, 0);
        add_shifted(toy, expected, toy.gather(none, b, rows, row), 0);
        EXPECT_EQ(toy.gather(out_b, out_a, rows, row), expected) << "row " << row;
    }
}

TEST(SwitchRows, IsOneSwitchPerKey) {
    Toy toy(256, 3, 2, 2, 3);
    const std::size_t keys = 6, columns = 100;
    toy.make_keys(keys);
    const Words a = toy.rows(1);
    const Words none(a.size());
    Words out_a(toy.count() * keys * toy.n()), out_b(toy.count() * keys * columns);
    switch_rows(toy.context, toy.limbs, toy.view(a, 1, toy.n()), toy.views, columns, out_a.data(),
                out_b.data());
    for (std::size_t key = 0; key < keys; ++key) {
        const Words expected = toy.switched(toy.gather(none, a, 1, 0), 1, static_cast<int>(key));
        for (std::size_t i = 0; i < toy.count(); ++i) {
            const std::uint64_t* const b_row = &expected[i * toy.n()];
            const std::uint64_t* const a_row = &expected[(toy.count() + i) * toy.n()];
            EXPECT_TRUE(std::equal(a_row, a_row + toy.n(), &out_a[(i * keys + key) * toy.n()]));
            EXPECT_TRUE(std::equal(b_row, b_row + columns, &out_b[(i * keys + key) * columns]));
        }
    }
}

}  // namespace
}  // namespace cipherblas
