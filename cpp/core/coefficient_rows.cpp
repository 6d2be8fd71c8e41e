// Encrypted matrices in coefficient form: the part of `Context` that works on whole batches of rows.
#include "rlwe/coefficient_rows.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "core/arrays.h"
#include "ring/samplers.h"
#include "rlwe/operand_rows.h"

namespace cipherblas::core {
namespace {

using namespace nb::literals;

int checked_limbs(const Context& context, std::size_t limbs, const char* what) {
    if (limbs > static_cast<std::size_t>(context.num_q())) {
        fail(what, "at most " + std::to_string(context.num_q()) + " limbs", std::to_string(limbs));
    }
    return static_cast<int>(limbs);
}

void check_scale(double scale) {
    if (!std::isfinite(scale) || scale == 0.0) fail("scale", "finite and not 0", std::to_string(scale));
}

// Messages are rounded to integers, which NaN and infinity have none of.
void check_messages(const Flat<double>& matrix, double scale) {
    check_scale(scale);
    const std::size_t count = matrix.shape(0) * matrix.shape(1);
    bool finite = true;
    for (std::size_t i = 0; i < count; ++i) finite = finite && std::isfinite(matrix.data()[i] * scale);
    if (!finite) fail("matrix", "finite entries, also times the scale", "NaN or infinity");
}

constexpr std::int64_t kLargestInteger = std::int64_t{1} << 61;

RowLayout layout_of(const Context& context, std::size_t rows, std::size_t width, bool shared) {
    return {context.n(), rows, width, shared ? RowSharing::kMasks : RowSharing::kSecrets};
}

// Secrets (count, at least `limbs`, N), NTT form.
class Secrets {
  public:
    Secrets(const Context& context, const AnyArray& array, std::size_t count, int limbs)
        : argument_(array, "secrets", {length(count), kAny, length(context.n())}) {
        if (argument_.shape(1) < static_cast<std::size_t>(limbs)) {
            fail("secrets", "at least " + std::to_string(limbs) + " limbs", shape_text(array));
        }
    }
    SecretsView view() const { return {argument_.origin(), argument_.stride(0), argument_.stride(1)}; }

  private:
    Argument<std::uint64_t, Layout::kRows> argument_;
};

Words encrypt_rows_array(const Context& context, const AnyArray& secrets, const AnyArray& a,
                         const AnyArray& noise_words, const AnyArray& matrix, double scale,
                         std::uint64_t dither, bool shared) {
    const Flat<double> messages(matrix, "matrix", {kAny, kAny});
    check_messages(messages, scale);
    const RowLayout layout = layout_of(context, messages.shape(0), messages.shape(1), shared);
    const Flat<std::uint64_t> masks(a, "a", {kAny, length(layout.a_rows()), length(layout.n)});
    const int limbs = checked_limbs(context, masks.shape(0), "a");
    const Flat<std::uint64_t> words(noise_words, "noise_words", {length(layout.rows), length(layout.width)});
    const Secrets s(context, secrets, layout.secrets(), limbs);
    Result<std::uint64_t> b({static_cast<std::size_t>(limbs), layout.rows, layout.width});
    {
        const nb::gil_scoped_release release;
        encrypt_rows(context, layout, s.view(), masks.data(), words.data(), {messages.data(), scale, dither},
                     limbs, b.data());
    }
    return b.array();
}

Words encrypt_operand_rows_array(const Context& context, const AnyArray& secret, const AnyArray& a,
                                 const AnyArray& noise_words, const AnyArray& matrix, double scale,
                                 std::uint64_t dither, const std::vector<std::uint64_t>& moduli) {
    const Flat<double> messages(matrix, "matrix", {kAny, kAny});
    check_messages(messages, scale);
    const RowLayout layout = layout_of(context, messages.shape(0), messages.shape(1), false);
    const gemm::OperandModuli checked(moduli);
    const Flat<std::uint64_t> masks(a, "a", {length(checked.words()), length(layout.rows), length(layout.n)});
    const Flat<std::uint64_t> words(noise_words, "noise_words", {length(layout.rows), length(layout.width)});
    const Secrets s(context, secret, 1, largest_prime(context) + 1);
    Result<std::uint64_t> b({checked.words(), layout.rows, layout.width});
    {
        const nb::gil_scoped_release release;
        encrypt_operand_rows(context, layout, s.view(), masks.data(), words.data(),
                             {messages.data(), scale, dither}, checked, b.data());
    }
    return b.array();
}

Words encrypt_operand_integers_array(const Context& context, const AnyArray& secret, const AnyArray& a,
                                     const AnyArray& noise_words, const AnyArray& matrix,
                                     const std::vector<std::int64_t>& message_factors,
                                     const std::vector<std::int64_t>& error_factors,
                                     const std::vector<std::uint64_t>& moduli) {
    const Flat<std::int64_t> messages(matrix, "matrix", {kAny, kAny});
    const RowLayout layout = layout_of(context, messages.shape(0), messages.shape(1), false);
    const gemm::OperandModuli checked(moduli);
    for (std::size_t i = 0; i < layout.rows * layout.width; ++i) {
        if (messages.data()[i] >= kLargestInteger || messages.data()[i] <= -kLargestInteger) {
            fail("matrix", "entries below 2^61", "others");
        }
    }
    for (const auto* factors : {&message_factors, &error_factors}) {
        bool good = factors->size() == checked.count();
        for (std::size_t i = 0; good && i < factors->size(); ++i) {
            good = (*factors)[i] >= 0 && (*factors)[i] < static_cast<std::int64_t>(checked[i]);
        }
        if (!good) fail("factors", "a residue modulo each modulus", "others");
    }
    const Flat<std::uint64_t> masks(a, "a", {length(checked.words()), length(layout.rows), length(layout.n)});
    const Flat<std::uint64_t> words(noise_words, "noise_words", {length(layout.rows), length(layout.width)});
    const Secrets s(context, secret, 1, largest_prime(context) + 1);
    Result<std::uint64_t> b({checked.words(), layout.rows, layout.width});
    {
        const nb::gil_scoped_release release;
        encrypt_operand_integers(context, layout, s.view(), masks.data(), words.data(),
                                 {messages.data(), message_factors.data(), error_factors.data()}, checked,
                                 b.data());
    }
    return b.array();
}

// Words of residues of operands, (words, rows, columns), where they lie.
class OperandWords {
  public:
    OperandWords(const AnyArray& array, const char* what, std::int64_t rows,
                 const gemm::OperandModuli& moduli)
        : argument_(array, what, {length(moduli.words()), rows, kAny}) {
        for (std::size_t word = 0; word < moduli.words(); ++word) {
            views_.push_back({argument_.origin() + static_cast<std::ptrdiff_t>(word) * argument_.stride(0),
                              gemm::Item::kResidue, argument_.shape(1), argument_.shape(2),
                              argument_.stride(1), argument_.stride(2)});
            bool good = false;
            {
                const nb::gil_scoped_release release;
                good = moduli.all_below(word, views_.back());
            }
            if (!good) {
                fail(what, "bytes below their moduli", "others in word " + std::to_string(word));
            }
        }
    }
    const std::vector<gemm::MatrixView>& views() const { return views_; }

  private:
    Argument<std::uint64_t, Layout::kStrided> argument_;
    std::vector<gemm::MatrixView> views_;
};

void check_switched_limbs(const Context& context, int limbs) {
    const int most = most_switched_limbs(context);
    if (limbs < 1 || limbs > most) {
        fail("limbs", "1 to " + std::to_string(most), std::to_string(limbs));
    }
}

Words multiply_operands_array(const Context& context, const AnyArray& x, const AnyArray& y,
                              const std::vector<std::uint64_t>& moduli, int limbs) {
    const gemm::OperandModuli checked(moduli);
    check_switched_limbs(context, limbs);
    const OperandWords left(x, "x", kAny, checked);
    const OperandWords right(y, "y", length(x.shape(2)), checked);
    Result<std::uint64_t> result({static_cast<std::size_t>(limbs), x.shape(1), y.shape(2)});
    {
        const nb::gil_scoped_release release;
        multiply_operands(context, left.views(), right.views(), checked, limbs, result.data());
    }
    return result.array();
}

Words gram_operands_array(const Context& context, const AnyArray& x, const std::vector<std::uint64_t>& moduli,
                          int limbs, std::int64_t least) {
    const gemm::OperandModuli checked(moduli);
    check_switched_limbs(context, limbs);
    const OperandWords operand(x, "x", kAny, checked);
    if (least < 1) fail("least", "at least 1", std::to_string(least));
    Result<std::uint64_t> result({static_cast<std::size_t>(limbs), x.shape(2), x.shape(2)});
    {
        const nb::gil_scoped_release release;
        gram_operands(context, operand.views(), checked, limbs, static_cast<std::size_t>(least),
                      result.data());
    }
    return result.array();
}

Words uniform_operands_array(const AnyArray& random, const std::vector<std::uint64_t>& moduli,
                             std::size_t word) {
    const gemm::OperandModuli checked(moduli);
    const Flat<std::uint64_t> words(random, "random", {kAny, 2});
    if (word >= checked.words()) {
        fail("word", "below " + std::to_string(checked.words()), std::to_string(word));
    }
    Result<std::uint64_t> result({words.shape(0)});
    uniform_operands(words.data(), words.shape(0), checked, word, result.data());
    return result.array();
}

bool are_operands(const AnyArray& words, const std::vector<std::uint64_t>& moduli, std::size_t word) {
    const gemm::OperandModuli checked(moduli);
    const Flat<std::uint64_t> given(words, "words", {kAny, kAny});
    if (word >= checked.words()) {
        fail("word", "below " + std::to_string(checked.words()), std::to_string(word));
    }
    const nb::gil_scoped_release release;
    return checked.all_below(word, {given.data(), gemm::Item::kResidue, given.shape(0), given.shape(1),
                                    static_cast<std::ptrdiff_t>(given.shape(1)), 1});
}

nb::tuple encrypt_rows_public_arrays(const Context& context, const AnyArray& public_key,
                                     const AnyArray& ternary_bytes, const AnyArray& e0_words,
                                     const AnyArray& e1_words, const AnyArray& matrix, double scale,
                                     std::uint64_t dither, int limbs) {
    const Flat<double> messages(matrix, "matrix", {kAny, kAny});
    check_messages(messages, scale);
    const RowLayout layout = layout_of(context, messages.shape(0), messages.shape(1), false);
    if (layout.segments() != 1) {
        fail("matrix", "at most " + std::to_string(layout.n) + " columns", shape_text(matrix));
    }
    const std::int64_t rows = length(layout.rows);
    const Ciphertext key(context, public_key, "public_key");
    if (key.view().components != 2) fail("public_key", "2 components", shape_text(public_key));
    if (limbs < 1 || limbs > key.view().limbs) {
        fail("limbs", "1 to " + std::to_string(key.view().limbs) + " (of the public key)",
             std::to_string(limbs));
    }
    const Flat<std::uint8_t> v(ternary_bytes, "ternary_bytes", {rows, kAny});
    if (v.shape(1) < layout.n + kTernarySpareBytes) {
        fail("ternary_bytes", "at least " + std::to_string(layout.n + kTernarySpareBytes) + " per row",
             std::to_string(v.shape(1)));
    }
    const Flat<std::uint64_t> e0(e0_words, "e0_words", {rows, length(layout.width)});
    const Flat<std::uint64_t> e1(e1_words, "e1_words", {rows, length(layout.n)});
    Result<std::uint64_t> a({static_cast<std::size_t>(limbs), layout.rows, layout.n});
    Result<std::uint64_t> b({static_cast<std::size_t>(limbs), layout.rows, layout.width});
    {
        const nb::gil_scoped_release release;
        encrypt_rows_public(context, layout, key.view(), {v.data(), v.shape(1), e0.data(), e1.data()},
                            {messages.data(), scale, dither}, limbs, a.data(), b.data());
    }
    return nb::make_tuple(a.array(), b.array());
}

nb::ndarray<nb::numpy, double> decrypt_rows_array(const Context& context, const AnyArray& secrets,
                                                  const AnyArray& a, const AnyArray& b, double scale,
                                                  bool shared) {
    const Flat<std::uint64_t> rows(b, "b", {kAny, kAny, kAny});
    check_scale(scale);
    const int limbs = checked_limbs(context, rows.shape(0), "b");
    const RowLayout layout = layout_of(context, rows.shape(1), rows.shape(2), shared);
    const Flat<std::uint64_t> masks(a, "a", {limbs, length(layout.a_rows()), length(layout.n)});
    const Secrets s(context, secrets, layout.secrets(), limbs);
    Result<double> out({layout.rows, layout.width});
    {
        const nb::gil_scoped_release release;
        decrypt_rows(context, layout, s.view(), masks.data(), rows.data(), limbs, scale, out.data());
    }
    return out.array();
}

Words encode_rows_array(const Context& context, const AnyArray& coefficients, int limbs, bool special) {
    const Argument<std::int64_t, Layout::kPacked> rows(coefficients, "coefficients",
                                                       {kAny, length(context.n())});
    const std::vector<int> positions = limb_positions(context, limbs, special);
    Result<std::uint64_t> result({rows.shape(0), positions.size(), context.n()});
    {
        const nb::gil_scoped_release release;
        encode_rows(context, rows.data(), rows.shape(0), positions.data(), static_cast<int>(positions.size()),
                    result.data());
    }
    return result.array();
}

Words rows_to_ntt_array(const Context& context, const AnyArray& x) {
    const Flat<std::uint64_t> rows(x, "x", {kAny, kAny, length(context.n())});
    const int limbs = checked_limbs(context, rows.shape(0), "x");
    Result<std::uint64_t> result({rows.shape(1), static_cast<std::size_t>(limbs), context.n()});
    {
        const nb::gil_scoped_release release;
        rows_to_ntt(context, rows.data(), rows.shape(1), limbs, result.data());
    }
    return result.array();
}

Words rows_from_ntt_array(const Context& context, const AnyArray& x) {
    const Flat<std::uint64_t> rows(x, "x", {kAny, kAny, length(context.n())});
    const int limbs = checked_limbs(context, rows.shape(1), "x");
    Result<std::uint64_t> result({rows.shape(1), rows.shape(0), context.n()});
    {
        const nb::gil_scoped_release release;
        rows_from_ntt(context, rows.data(), rows.shape(0), limbs, result.data());
    }
    return result.array();
}

template <auto Operation>
Words combine(const Context& context, const AnyArray& x, const AnyArray& y) {
    const Flat<std::uint64_t> left(x, "x", {kAny, kAny, kAny});
    const int limbs = checked_limbs(context, left.shape(0), "x");
    const Flat<std::uint64_t> right(y, "y", {limbs, length(left.shape(1)), length(left.shape(2))});
    Result<std::uint64_t> result({left.shape(0), left.shape(1), left.shape(2)});
    {
        const nb::gil_scoped_release release;
        Operation(context, left.data(), right.data(), left.shape(1) * left.shape(2), limbs, result.data());
    }
    return result.array();
}

Words scale_limbs_by(const Context& context, const AnyArray& x, const nb::object& factor) {
    const Flat<std::uint64_t> rows(x, "x", {kAny, kAny, kAny});
    const int limbs = checked_limbs(context, rows.shape(0), "x");
    const std::vector<std::uint64_t> residues = residues_of(context, factor, limbs);
    Result<std::uint64_t> result({rows.shape(0), rows.shape(1), rows.shape(2)});
    {
        const nb::gil_scoped_release release;
        scale_limbs(context, rows.data(), residues.data(), rows.shape(1) * rows.shape(2), limbs,
                    result.data());
    }
    return result.array();
}

Words rescaled_limbs(const Context& context, const AnyArray& x) {
    const Flat<std::uint64_t> rows(x, "x", {kAny, kAny, kAny});
    const int limbs = checked_limbs(context, rows.shape(0), "x");
    if (limbs < 2) fail("x", "at least 2 limbs", std::to_string(limbs));
    Result<std::uint64_t> result({rows.shape(0) - 1, rows.shape(1), rows.shape(2)});
    {
        const nb::gil_scoped_release release;
        rescale_limbs(context, rows.data(), rows.shape(1) * rows.shape(2), limbs, result.data());
    }
    return result.array();
}

}  // namespace

void bind_operands(nb::module_& m) {
    m.attr("MOST_OPERAND_MODULI") = gemm::kMostOperandModuli;
    m.attr("OPERAND_DEPTH") = gemm::kOperandDepth;
    m.attr("OPERAND_ROWS") = gemm::kOperandRows;
    m.attr("OPERAND_COLS") = gemm::kOperandCols;
    m.def("uniform_operands", &uniform_operands_array, "random"_a, "moduli"_a, "word"_a,
          "Word `word` of uniform residues, of two random words (count, 2) each.");
    m.def("are_operands", &are_operands, "words"_a, "moduli"_a, "word"_a,
          "Whether the bytes of words (rows, columns) of place `word` are below their moduli, all others 0.");
}

void bind_coefficient_rows(nb::class_<Context>& context) {
    context
        .def(
            "encrypt_rows", &encrypt_rows_array, "secrets"_a, "a"_a, "noise_words"_a, "matrix"_a, "scale"_a,
            "dither"_a, "shared"_a = false,
            "The b part (limbs, rows, width) of the rows of round(scale * matrix), coefficient domain.\n\n"
            "a (limbs, a rows, N) in the coefficient domain, secrets (count, limbs or more, N) in NTT form.\n"
            "A row is cut into segments of N; one of `count` entries holds them at X^(j N/d), d = "
            "bit_ceil(count).\n"
            "shared=False: an a part per row, a secret per segment; shared=True: an a part per segment, a "
            "secret per row.\n"
            "noise_words (rows, width): random words. dither: another one; entries are rounded by chance.")
        .def("encrypt_operand_rows", &encrypt_operand_rows_array, "secret"_a, "a"_a, "noise_words"_a,
             "matrix"_a, "scale"_a, "dither"_a, "moduli"_a,
             "The b part (words, rows, width) of rows of at most N entries, modulo coprime odd moduli of a "
             "byte "
             "each,\n"
             "residue i in byte i % 8 of word i / 8. secret: (1, all limbs of Q and P, N); a: (words, rows, "
             "N). "
             "See encrypt_rows.")
        .def("encrypt_operand_integers", &encrypt_operand_integers_array, "secret"_a, "a"_a, "noise_words"_a,
             "matrix"_a, "message_factors"_a, "error_factors"_a, "moduli"_a,
             "The same of int64 entries below 2^61: residue i of message m and error e is m times "
             "message_factors[i]\n"
             "plus e times error_factors[i], residues modulo it.")
        .def("multiply_operands", &multiply_operands_array, "x"_a, "y"_a, "moduli"_a, "limbs"_a,
             "x y times Q over the product W of the moduli, rounded: words (words, m, k) and "
             "(words, k, n) to\n"
             "residues (limbs, m, n) modulo the first limbs, Q their product, one or two.")
        .def("gram_operands", &gram_operands_array, "x"_a, "moduli"_a, "limbs"_a, "least"_a,
             "The same of the transpose of x and x, of halves of columns until there are `least` or fewer.")
        .def("encrypt_rows_public", &encrypt_rows_public_arrays, "public_key"_a, "ternary_bytes"_a,
             "e0_words"_a, "e1_words"_a, "matrix"_a, "scale"_a, "dither"_a, "limbs"_a,
             "(a, b) of the rows of round(scale * matrix) under a public key (2, limbs, N), one v per row.\n"
             "See encrypt_rows.")
        .def("decrypt_rows", &decrypt_rows_array, "secrets"_a, "a"_a, "b"_a, "scale"_a = 1.0,
             "shared"_a = false,
             "float64 (rows, width): centred b + a s modulo all limbs, over scale; see encrypt_rows.")
        .def("encode_rows", &encode_rows_array, "coefficients"_a, "limbs"_a, "special"_a = false,
             "Polynomials (rows, limbs (+ k), N) in NTT form of signed coefficients (rows, N).")
        .def("rows_to_ntt", &rows_to_ntt_array, "x"_a,
             "Coefficients (limbs, rows, N) to polynomials (rows, limbs, N) in NTT form.")
        .def("rows_from_ntt", &rows_from_ntt_array, "x"_a, "The inverse of rows_to_ntt.")
        .def("add_limbs", &combine<add_limbs>, "x"_a, "y"_a, "x + y on arrays (limbs, rows, width).")
        .def("sub_limbs", &combine<subtract_limbs>, "x"_a, "y"_a, "x - y on arrays (limbs, rows, width).")
        .def("scale_limbs", &scale_limbs_by, "x"_a, "factor"_a,
             "x (limbs, rows, width) times an integer of any size.")
        .def("rescale_limbs", &rescaled_limbs, "x"_a,
             "x (limbs, rows, width) over its last prime, rounded: (limbs - 1, rows, width).");
}

}  // namespace cipherblas::core
