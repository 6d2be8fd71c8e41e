// The client side of `Context`: encodings, sampling, encryption, decryption, key making.
#include <nanobind/stl/vector.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "ckks/encoder.h"
#include "core/arrays.h"
#include "ring/kernels.h"
#include "ring/samplers.h"
#include "ring/threads.h"
#include "rlwe/encryption.h"

namespace cipherblas::core {
namespace {

using namespace nb::literals;
using Complex = std::complex<double>;

// Real or complex slots.
class Slots {
  public:
    Slots(const AnyArray& values, std::int64_t count) {
        if (values.dtype() == nb::dtype<double>()) {
            real_.emplace(values, "values", count);
        } else if (values.dtype() != nb::dtype<Complex>()) {
            fail("values", "dtype complex128 or float64", dtype_text(values.dtype()));
        } else {
            complex_.emplace(values, "values", count);
        }
    }
    std::size_t size() const { return real_ ? real_->size() : complex_->size(); }
    void encode(const Encoder& encoder, double scale, std::int64_t* coefficients,
                std::uint64_t dither) const {
        if (real_) {
            encoder.encode(real_->data(), size(), scale, coefficients, dither);
        } else {
            encoder.encode(complex_->data(), size(), scale, coefficients, dither);
        }
    }

  private:
    std::optional<Vector<double>> real_;
    std::optional<Vector<Complex>> complex_;
};

Signed encode(const Context& context, const AnyArray& values, double scale, std::uint64_t dither) {
    const Slots slots(values, kAny);
    if (slots.size() > context.slots()) {
        fail("values", "at most " + std::to_string(context.slots()) + " slots", std::to_string(slots.size()));
    }
    Result<std::int64_t> result({context.n()});
    {
        const nb::gil_scoped_release release;
        slots.encode(*Encoder::of_degree(context.n()), scale, result.data(), dither);
    }
    return result.array();
}

// About how many word operations it is to embed a slot, and to transform a coefficient: see `threads_for_work`.
constexpr std::size_t kEmbedding = 32;

std::vector<Signed> encode_all(const Context& context, const std::vector<AnyArray>& values, double scale,
                               const std::vector<std::uint64_t>& dithers) {
    if (dithers.size() != values.size()) {
        fail("dithers", std::to_string(values.size()) + " of them", std::to_string(dithers.size()));
    }
    std::vector<Slots> arguments;
    std::vector<Result<std::int64_t>> results;
    arguments.reserve(values.size());
    results.reserve(values.size());
    for (const AnyArray& slots : values) {
        arguments.emplace_back(slots, length(context.slots()));
        results.emplace_back(std::initializer_list<std::size_t>{context.n()});
    }
    const auto encoder = Encoder::of_degree(context.n());
    {
        const nb::gil_scoped_release release;
        const int threads = threads_for_work(values.size(), values.size() * context.n() * kEmbedding);
        parallel_for(values.size(), threads, [&](std::size_t i, int) {
            arguments[i].encode(*encoder, scale, results[i].data(), dithers[i]);
        });
    }
    std::vector<Signed> arrays;
    for (auto& result : results) arrays.push_back(result.array());
    return arrays;
}

nb::object write_weights(const Context& context, const nb::object& out, std::size_t first,
                         const std::vector<AnyArray>& messages) {
    auto* const halves = static_cast<std::uint32_t*>(writable(out, "out"));
    const auto array = nb::cast<AnyArray>(out);
    const Argument<std::uint32_t, Layout::kFlat> checked(array, "out", {kAny, kAny, kAny, kAny});
    const std::size_t pieces = checked.shape(1), terms = checked.shape(2), width = checked.shape(3);
    const std::size_t n = context.n();
    const int limbs = factor_limbs(context, array, "out", false);
    if (checked.origin() != halves) fail("out", "items at multiples of their size", "another address");
    if (pieces == 0 || n % pieces != 0 || width != n / pieces) {
        fail("out", "pieces of N words together", shape_text(array));
    }
    if (first > terms || messages.size() > terms - first) {
        fail("messages", "at most " + std::to_string(terms) + " terms",
             std::to_string(messages.size()) + " from " + std::to_string(first) + " on");
    }
    std::vector<Coefficients> arguments;
    std::vector<const std::int64_t*> coefficients;
    arguments.reserve(messages.size());
    for (const AnyArray& message : messages) {
        if (may_overlap(array, message)) fail("out", "memory of its own", "an operand's");
        arguments.emplace_back(context, message, "messages");
        coefficients.push_back(arguments.back().data());
    }
    {
        const nb::gil_scoped_release release;
        encode_factors(context, coefficients, first, {halves, limbs, terms, width});
    }
    return out;
}

nb::ndarray<nb::numpy, Complex> decode(const Context& context, const AnyArray& coefficients) {
    const Vector<double> argument(coefficients, "coefficients", length(context.n()));
    Result<Complex> result({context.slots()});
    {
        const nb::gil_scoped_release release;
        Encoder::of_degree(context.n())->decode(argument.data(), result.data());
    }
    return result.array();
}

Words plaintext(const Context& context, const AnyArray& coefficients, int limbs, bool special,
                bool montgomery) {
    const Coefficients argument(context, coefficients, "coefficients");
    const std::vector<int> positions = limb_positions(context, limbs, special);
    Result<std::uint64_t> result({positions.size(), context.n()});
    {
        const nb::gil_scoped_release release;
        encode_residues(context, argument.data(), positions.data(), static_cast<int>(positions.size()),
                        montgomery, result.data());
    }
    return result.array();
}

nb::ndarray<nb::numpy, std::uint32_t> factor(const Context& context, const AnyArray& coefficients, int limbs,
                                             bool special, std::size_t repeats) {
    const Coefficients argument(context, coefficients, "coefficients");
    context.check_limbs(limbs);
    if (!std::has_single_bit(repeats) || repeats > context.n() || repeats == 2 || repeats == 4) {
        fail("repeats", "1, or a power of two from 8 to N", std::to_string(repeats));
    }
    Result<std::uint32_t> result({factor_halves(context, limbs, special), context.n() / repeats});
    {
        const nb::gil_scoped_release release;
        encode_factor(context, argument.data(), limbs, special, repeats, result.data());
    }
    return result.array();
}

// About how many word operations it is to reduce a word to a residue: see `threads_for_work`.
constexpr std::size_t kSampling = 8;

Words uniform(const Context& context, const AnyArray& words, const std::vector<int>& moduli_index) {
    const std::size_t n = context.n();
    const Argument<std::uint64_t, Layout::kRows> argument(
        words, "words", {length(moduli_index.size()), length(n + kUniformSpareWords)});
    for (const int index : moduli_index) {
        if (index < 0 || index >= context.basis().size()) {
            fail("moduli_index", "indices below " + std::to_string(context.basis().size()),
                 std::to_string(index));
        }
    }
    Result<std::uint64_t> result({moduli_index.size(), n});
    {
        const nb::gil_scoped_release release;
        const std::size_t rows = moduli_index.size();
        parallel_for(rows, threads_for_work(rows, kSampling * rows * n), [&](std::size_t row, int) {
            sample_uniform(result.data() + row * n, argument.row(row), n, context.modulus(moduli_index[row]));
        });
    }
    return result.array();
}

Signed ternary(const Context& context, const AnyArray& bytes) {
    const std::size_t least = context.n() + kTernarySpareBytes;
    check_array(bytes, "bytes", nb::dtype<std::uint8_t>(), {kAny});
    if (bytes.shape(0) < least || bytes.shape(0) > 16 * least) {
        fail("bytes", "at least " + std::to_string(least) + " and at most 16 times as many",
             std::to_string(bytes.shape(0)));
    }
    const Vector<std::uint8_t> argument(bytes, "bytes", kAny);
    Result<std::int64_t> result({context.n()});
    sample_ternary(result.data(), argument.data(), argument.size(), context.n());
    return result.array();
}

Signed gaussian(const Context& context, const AnyArray& words) {
    const Vector<std::uint64_t> argument(words, "words", length(context.n()));
    Result<std::int64_t> result({context.n()});
    {
        const nb::gil_scoped_release release;
        sample_gaussian(result.data(), argument.data(), context.n());
    }
    return result.array();
}

// Errors and messages are added as 64-bit integers.
void check_sums(const Coefficients& errors, const char* what, const Coefficients& message) {
    constexpr std::int64_t kLimit = std::int64_t{1} << 62;
    const auto check = [](const Coefficients& x, const char* name) {
        for (std::size_t i = 0; i < x.size(); ++i) {
            if (x.data()[i] > -kLimit && x.data()[i] < kLimit) continue;
            fail(name, "coefficients below 2^62 in absolute value", std::to_string(x.data()[i]));
        }
    };
    check(errors, what);
    check(message, "message");
}

// A message times a Python integer.
class Multiplied {
  public:
    Multiplied(const Context& context, const Coefficients& message, const nb::object& factor, int limbs)
        : view_{message.data(), nullptr}, residues_(residues_of(context, factor, limbs)) {
        if (!factor.equal(nb::int_(1))) view_.factors = residues_.data();
    }
    const MessageView& view() const { return view_; }

  private:
    MessageView view_;
    std::vector<std::uint64_t> residues_;
};

Words encrypt_symmetric_array(const Context& context, const AnyArray& secret, const AnyArray& a,
                              const AnyArray& noise, const AnyArray& message, const nb::object& factor) {
    const Polynomial s(context, secret, "secret", context.basis().size());
    const LimbsOfQ uniform_part(context, a, "a");
    const Coefficients e(context, noise, "noise");
    const Coefficients m(context, message, "message");
    check_sums(e, "noise", m);
    const Multiplied scaled(context, m, factor, uniform_part.limbs());
    Result<std::uint64_t> result({static_cast<std::size_t>(uniform_part.limbs()), context.n()});
    {
        const nb::gil_scoped_release release;
        encrypt_symmetric(context, s.view(), uniform_part.view(), e.data(), scaled.view(),
                          uniform_part.limbs(), result.data());
    }
    return result.array();
}

void expand(const Context& context, const AnyArray& b, const AnyArray& words, const nb::object& factor,
            const nb::object& out) {
    const LimbsOfQ part(context, b, "b");
    const Argument<std::uint64_t, Layout::kRows> random(
        words, "words",
        {length(static_cast<std::size_t>(part.limbs())), length(context.n() + kUniformSpareWords)});
    const std::vector<std::uint64_t> factors = residues_of(context, factor, part.limbs());
    const std::uint64_t* const times = factor.equal(nb::int_(1)) ? nullptr : factors.data();
    auto* const data = static_cast<std::uint64_t*>(writable(out, "out"));
    const AnyArray array = nb::cast<AnyArray>(out);
    const Argument<std::uint64_t, Layout::kPacked> packed(array, "out",
                                                          {2, part.limbs(), length(context.n())});
    if (packed.data() != data) fail("out", "a C-contiguous, 64-byte aligned array", "another layout");
    for (const AnyArray& source : {b, words}) {
        if (may_overlap(array, source)) fail("out", "memory of its own", "that of an argument");
    }
    const nb::gil_scoped_release release;
    expand_fresh(context, part.view(), random.origin(), random.stride(0), times,
                 {data, 2, part.limbs(), context.n()});
}

Words encrypt_public_array(const Context& context, const AnyArray& public_key, const AnyArray& v,
                           const AnyArray& e0, const AnyArray& e1, const AnyArray& message, int limbs,
                           const nb::object& factor) {
    const Ciphertext key(context, public_key, "public_key");
    if (key.view().components != 2) fail("public_key", "2 components", shape_text(public_key));
    const Coefficients v_argument(context, v, "v");
    const Coefficients e0_argument(context, e0, "e0");
    const Coefficients e1_argument(context, e1, "e1");
    const Coefficients m(context, message, "message");
    check_sums(e0_argument, "e0", m);
    if (limbs < 1 || limbs > key.view().limbs) {
        fail("limbs", "1 to " + std::to_string(key.view().limbs) + " (of the public key)",
             std::to_string(limbs));
    }
    const Multiplied scaled(context, m, factor, limbs);
    CiphertextResult result(context, 2, limbs);
    {
        const nb::gil_scoped_release release;
        encrypt_public(context, key.view(), v_argument.data(), e0_argument.data(), e1_argument.data(),
                       scaled.view(), result.span());
    }
    return result.array();
}

nb::ndarray<nb::numpy, double> phase(const Context& context, const AnyArray& secret,
                                     const AnyArray& ciphertext) {
    const Polynomial s(context, secret, "secret", context.basis().size());
    const Ciphertext ct(context, ciphertext, "ciphertext");
    Result<double> result({context.n()});
    {
        const nb::gil_scoped_release release;
        decrypt_coefficients(context, s.view(), ct.view(), result.data());
    }
    return result.array();
}

Words switching_key(const Context& context, const AnyArray& secret, const AnyArray& source, const AnyArray& a,
                    const AnyArray& noise, int limbs) {
    context.check_limbs(limbs);
    if (context.num_p() == 0) fail("switching key", "a context with special primes", "none");
    const std::size_t digits = static_cast<std::size_t>(context.digits(limbs));
    const std::size_t rows = static_cast<std::size_t>(limbs + context.num_p());
    const std::int64_t n = length(context.n());
    const Polynomial s(context, secret, "secret", context.basis().size());
    const Polynomial s_source(context, source, "source", context.basis().size());
    const Argument<std::uint64_t, Layout::kPacked> a_argument(a, "a", {length(digits), length(rows), n});
    const Argument<std::int64_t, Layout::kPacked> e(noise, "noise", {length(digits), n});
    Result<std::uint64_t> result({digits, 2, context.key_words(limbs)});
    {
        const nb::gil_scoped_release release;
        make_switching_key(context, s.view(), s_source.view(), a_argument.data(), e.data(), limbs,
                           result.data());
    }
    return result.array();
}

Words pack_key(const Context& context, const AnyArray& limbs) {
    const PolynomialRows x(context, limbs, "limbs");
    const int count = checked_count(limbs, "limbs",
                                    x.rows() - std::min(x.rows(), static_cast<std::size_t>(context.num_p())),
                                    context.num_q(), "limbs beside the special ones");
    const std::vector<int> positions = limb_positions(context, count, true);
    Result<std::uint64_t> result({context.key_words(count)});
    {
        const nb::gil_scoped_release release;
        parallel_for(x.rows(), threads_for_work(x.rows(), x.rows() * context.n()), [&](std::size_t row, int) {
            pack(result.data() + context.key_words_before(count, positions[row]), x.row(row), context.n(),
                 context.key_bits(positions[row]));
        });
    }
    return result.array();
}

Words unpack_key(const Context& context, const AnyArray& words) {
    const Argument<std::uint64_t, Layout::kPacked> x(words, "words", {kAny});
    const int limbs = limbs_of_key_words(context, words, "words", x.shape(0));
    const std::vector<int> positions = limb_positions(context, limbs, true);
    Result<std::uint64_t> result({positions.size(), context.n()});
    {
        const nb::gil_scoped_release release;
        const std::size_t rows = positions.size();
        parallel_for(rows, threads_for_work(rows, rows * context.n()), [&](std::size_t row, int) {
            unpack(result.data() + row * context.n(),
                   x.data() + context.key_words_before(limbs, positions[row]), context.n(),
                   context.key_bits(positions[row]));
        });
    }
    return result.array();
}

Words automorphism(const Context& context, const AnyArray& poly, std::uint64_t galois) {
    const PolynomialRows x(context, poly, "poly");
    const auto permutation = context.basis().permutation(galois);
    const std::size_t n = context.n();
    Result<std::uint64_t> result({x.rows(), n});
    {
        const nb::gil_scoped_release release;
        parallel_for(x.rows(), threads_for_work(x.rows(), x.rows() * n), [&](std::size_t row, int) {
            kernels().permute(result.data() + row * n, x.row(row), *permutation, n);
        });
    }
    return result.array();
}

Words multiply(const Context& context, const AnyArray& x, const AnyArray& y) {
    const PolynomialRows left(context, x, "x");
    if (left.rows() > static_cast<std::size_t>(context.basis().size())) {
        fail("x", "at most " + std::to_string(context.basis().size()) + " rows", shape_text(x));
    }
    const int rows = static_cast<int>(left.rows());
    const Polynomial right(context, y, "y", rows);
    const std::size_t n = context.n();
    Result<std::uint64_t> result({left.rows(), n});
    {
        const nb::gil_scoped_release release;
        parallel_for(left.rows(), threads_for_work(left.rows(), left.rows() * n), [&](std::size_t row, int) {
            const int limb = static_cast<int>(row);
            kernels().mul(result.data() + row * n, left.row(row), right.view().limb(limb), n,
                          context.modulus(limb));
        });
    }
    return result.array();
}

}  // namespace

void bind_client(nb::class_<Context>& context) {
    context
        .def("encode", &encode, "values"_a, "scale"_a, "dither"_a = 0,
             "Coefficients round(scale * embedding^-1(values)) as int64 (N,); missing slots are 0. Slots are "
             "complex128 or\n"
             "float64.\n"
             "With a dither other than 0 they are rounded up or down by chance, so that equal values have "
             "unlike errors.")
        .def("encode_all", &encode_all, "values"_a, "scale"_a, "dithers"_a,
             "The same of several vectors of S slots each, with a dither for each, in parallel: a list of "
             "int64 "
             "(N,).")
        .def("write_weights", &write_weights, "out"_a, "first"_a, "messages"_a,
             "Writes the factors of messages, coefficients int64 (N,): the terms from `first` on of an array "
             "(halves, N / width,\n"
             "terms, width), limb after limb as those of `factor`, each [N / width][term][width].")
        .def("decode", &decode, "coefficients"_a, "Slots (S,) of real coefficients (N,), unscaled.")
        .def("plaintext", &plaintext, "coefficients"_a, "limbs"_a, "special"_a = false,
             "montgomery"_a = false,
             "Residues of coefficients in NTT form: `limbs` q limbs, then the special limbs if asked for.")
        .def("factor", &factor, "coefficients"_a, "limbs"_a, "special"_a = false, "repeats"_a = 1,
             "The same to multiply by, in Montgomery form, uint32 (halves, N): limb after limb N residues, "
             "of 32 "
             "bits modulo\n"
             "primes below 2^32, else of 64, which take two rows. Of a polynomial in X^repeats, whose "
             "residues\n"
             "repeat so many times in a row: (halves, N / repeats), for giant_steps.")
        .def("uniform", &uniform, "words"_a, "moduli_index"_a,
             "Uniform residues (rows, N) from random words (rows, N + 128); row i modulo "
             "moduli[moduli_index[i]].")
        .def("ternary", &ternary, "bytes"_a, "N values of {-1, 0, 1} from N + 256 random bytes or more.")
        .def("gaussian", &gaussian, "words"_a, "N discrete Gaussian values (sigma 3.2) from N random words.")
        .def("expand", &expand, "b"_a, "words"_a, "factor"_a, "out"_a,
             "Writes the ciphertext (b, a) times an integer, uint64 (2, limbs, N): a is made of random words "
             "(limbs, N + 128), as\n"
             "by uniform.")
        .def("encrypt_symmetric", &encrypt_symmetric_array, "secret"_a, "a"_a, "noise"_a, "message"_a,
             "factor"_a = 1,
             "The b part -a s + e + factor m of a ciphertext, on the limbs of a: an integer of any size.")
        .def("encrypt_public", &encrypt_public_array, "public_key"_a, "v"_a, "e0"_a, "e1"_a, "message"_a,
             "limbs"_a, "factor"_a = 1, "Public-key encryption (pk_0 v + e_0 + factor m, pk_1 v + e_1).")
        .def("phase", &phase, "secret"_a, "ciphertext"_a,
             "Centred coefficients of b + a s + c2 s^2 as float64, modulo all limbs.")
        .def("switching_key", &switching_key, "secret"_a, "source"_a, "a"_a, "noise"_a, "limbs"_a,
             "Key (digits, 2, key words) that switches from `source` to `secret`, in Montgomery "
             "form, as "
             "pack_key\n"
             "leaves it. The uniform residues `a` are taken as the Montgomery form of the a part: component "
             "1 of the "
             "key\n"
             "equals `a`.")
        .def("pack_key", &pack_key, "limbs"_a,
             "Limbs (limbs + k, N) as components of switching keys keep them: limb after limb in words of "
             "32, "
             "40, 48 or\n"
             "50 bits, by the size of its prime.")
        .def("unpack_key", &unpack_key, "words"_a, "The limbs (limbs + k, N) of what pack_key makes.")
        .def("automorphism", &automorphism, "poly"_a, "galois"_a, "X -> X^galois on rows in NTT form.")
        .def("multiply", &multiply, "x"_a, "y"_a, "Product of rows in NTT form; row i modulo moduli[i].");
}

}  // namespace cipherblas::core
