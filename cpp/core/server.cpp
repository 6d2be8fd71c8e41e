// The server side of `Context`: arithmetic on ciphertexts with public keys only.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "ckks/arithmetic.h"
#include "core/arrays.h"
#include "ring/aligned.h"
#include "ring/threads.h"
#include "rlwe/coefficient_parts.h"
#include "rlwe/encryption.h"
#include "rlwe/giant_steps.h"
#include "rlwe/transform.h"

namespace cipherblas::core {
namespace {

using namespace nb::literals;

void check_equal_limbs(const CiphertextView& x, const CiphertextView& y) {
    if (x.limbs != y.limbs) {
        fail("ciphertexts", "equal limbs", std::to_string(x.limbs) + " and " + std::to_string(y.limbs));
    }
}

template <auto Operation>
Words binary(const Context& context, const AnyArray& x, const AnyArray& y) {
    const Ciphertext left(context, x, "x", kMostComponents);
    const Ciphertext right(context, y, "y", kMostComponents);
    check_equal_limbs(left.view(), right.view());
    CiphertextResult result(context, std::max(left.view().components, right.view().components),
                            left.view().limbs);
    {
        const nb::gil_scoped_release release;
        Operation(context, left.view(), right.view(), result.span());
    }
    return result.array();
}

Words neg(const Context& context, const AnyArray& x) {
    const Ciphertext ct(context, x, "x", kMostComponents);
    CiphertextResult result(context, ct.view().components, ct.view().limbs);
    {
        const nb::gil_scoped_release release;
        negate(context, ct.view(), result.span());
    }
    return result.array();
}

template <auto Operation>
Words with_plaintext(const Context& context, const AnyArray& ct, const AnyArray& pt) {
    const Ciphertext x(context, ct, "ct");
    const Polynomial m(context, pt, "pt", x.view().limbs);
    CiphertextResult result(context, x.view().components, x.view().limbs);
    {
        const nb::gil_scoped_release release;
        Operation(context, x.view(), m.view(), result.span());
    }
    return result.array();
}

Words multiply_scalar_by(const Context& context, const AnyArray& ct, const nb::object& value) {
    const Ciphertext x(context, ct, "ct", kMostComponents);
    const std::vector<std::uint64_t> residues = residues_of(context, value, x.view().limbs);
    CiphertextResult result(context, x.view().components, x.view().limbs);
    {
        const nb::gil_scoped_release release;
        multiply_scalar(context, x.view(), residues, result.span());
    }
    return result.array();
}

// Ciphertexts of a sum, as many integers, and a constant.
using Scaled = std::tuple<std::vector<AnyArray>, std::vector<nb::object>, nb::object>;

std::vector<Words> scaled_sums_of(const Context& context, const std::vector<Scaled>& given) {
    std::vector<Ciphertext> arguments;
    std::vector<ScaledSum> sums;
    std::vector<CiphertextResult> results;
    for (const auto& [cts, values, constant] : given) {
        if (cts.empty() || cts.size() != values.size()) {
            fail("values", "as many as ciphertexts, at least 1", std::to_string(values.size()));
        }
        ScaledSum sum;
        for (std::size_t t = 0; t < cts.size(); ++t) {
            arguments.emplace_back(context, cts[t], "cts", kMostComponents);
            sum.terms.push_back(arguments.back().view());
            const CiphertextView &first = sum.terms.front(), &last = sum.terms.back();
            if (last.limbs != first.limbs || last.components != first.components) {
                fail("cts",
                     std::to_string(first.components) + " components of " + std::to_string(first.limbs) +
                         " limbs",
                     std::to_string(last.components) + " of " + std::to_string(last.limbs));
            }
            sum.residues.push_back(residues_of(context, values[t], first.limbs));
        }
        sum.constant = residues_of(context, constant, sum.terms.front().limbs);
        results.emplace_back(context, sum.terms.front().components, sum.terms.front().limbs);
        sum.out = results.back().span();
        sums.push_back(std::move(sum));
    }
    {
        const nb::gil_scoped_release release;
        scaled_sums(context, sums);
    }
    std::vector<Words> arrays;
    for (CiphertextResult& result : results) arrays.push_back(result.array());
    return arrays;
}

// The accumulator that a caller passed, updated in place, or a new one.
class Accumulator {
  public:
    // It is written to while the factors are read.
    Accumulator(const Context& context, const nb::object& given, int components, int limbs,
                std::initializer_list<const std::vector<AnyArray>*> factors)
        : given_(given) {
        if (given.is_none()) {
            made_.emplace(context, components, limbs);
            span_ = made_->span();
            return;
        }
        constexpr const char* kWhat = "accumulator";
        auto* const data = static_cast<std::uint64_t*>(writable(given, kWhat));
        const AnyArray array = nb::cast<AnyArray>(given);
        const Argument<std::uint64_t, Layout::kPacked> packed(array, kWhat,
                                                              {components, limbs, length(context.n())});
        if (packed.data() != data) fail(kWhat, "a C-contiguous, 64-byte aligned array", "another layout");
        for (const std::vector<AnyArray>* arrays : factors) {
            for (const AnyArray& factor : *arrays) {
                if (may_overlap(array, factor)) fail(kWhat, "memory of its own", "that of a factor");
            }
        }
        span_ = {data, components, limbs, context.n()};
    }
    bool accumulates() const { return !made_.has_value(); }
    const CiphertextSpan& span() const { return span_; }
    nb::object object() { return made_ ? nb::cast(made_->array()) : given_; }

  private:
    nb::object given_;
    std::optional<CiphertextResult> made_;
    CiphertextSpan span_;
};

// Ciphertexts of equal limbs and two components, or as many as the first one has up to `most`.
class Factors {
  public:
    Factors(const Context& context, const std::vector<AnyArray>& arrays, const char* what, int most = 2) {
        if (arrays.empty()) fail(what, "at least one ciphertext", "none");
        for (const AnyArray& array : arrays) {
            arguments_.emplace_back(context, array, what, std::max(most, 3));
            views.push_back(arguments_.back().view());
            const int wanted = most == 2 ? 2 : views.front().components;
            if (views.back().components != wanted) {
                fail(what, std::to_string(wanted) + " components", shape_text(array));
            }
            check_equal_limbs(views.front(), views.back());
        }
    }
    std::vector<CiphertextView> views;

  private:
    std::vector<Ciphertext> arguments_;
};

nb::object multiply_sum_of(const Context& context, const std::vector<AnyArray>& lefts,
                           const std::vector<AnyArray>& rights, const nb::object& accumulator) {
    if (lefts.size() != rights.size()) {
        fail("rights", std::to_string(lefts.size()) + " ciphertexts", std::to_string(rights.size()));
    }
    const Factors left(context, lefts, "lefts");
    const Factors right(context, rights, "rights");
    check_equal_limbs(left.views.front(), right.views.front());
    Accumulator sum(context, accumulator, 3, left.views.front().limbs, {&lefts, &rights});
    {
        const nb::gil_scoped_release release;
        multiply_sum(context, left.views, right.views, sum.accumulates(), sum.span());
    }
    return sum.object();
}

// Lists of one length, of ciphertexts of equal limbs.
class FactorLists {
  public:
    FactorLists(const Context& context, const std::vector<std::vector<AnyArray>>& lists, std::size_t length,
                const char* what) {
        for (const std::vector<AnyArray>& arrays : lists) {
            if (arrays.size() != length) {
                fail(what, std::to_string(length) + " ciphertexts", std::to_string(arrays.size()));
            }
            factors_.emplace_back(context, arrays, what);
            views.push_back(factors_.back().views);
        }
    }
    std::vector<std::vector<CiphertextView>> views;

  private:
    std::vector<Factors> factors_;
};

std::vector<Words> relinearised_sums_of(const Context& context,
                                        const std::vector<std::vector<AnyArray>>& lefts,
                                        const std::vector<std::vector<AnyArray>>& rights, const AnyArray& key,
                                        const nb::object& factor) {
    if (lefts.empty()) fail("lefts", "at least one list of ciphertexts", "none");
    const FactorLists left(context, lefts, lefts.front().size(), "lefts");
    const FactorLists right(context, rights, lefts.front().size(), "rights");
    const CiphertextView& first = left.views.front().front();
    for (const FactorLists* const lists : {&left, &right}) {
        for (const std::vector<CiphertextView>& views : lists->views) check_equal_limbs(first, views.front());
    }
    const SwitchingKey switching_key(context, key, "relinearisation key");
    std::vector<std::uint64_t> factors = residues_of(context, factor, first.limbs);
    if (std::all_of(factors.begin(), factors.end(), [](std::uint64_t residue) { return residue == 1; })) {
        factors.clear();
    }
    std::vector<CiphertextResult> results;
    std::vector<CiphertextSpan> spans;
    for (std::size_t r = 0; r < lefts.size() * rights.size(); ++r) {
        results.emplace_back(context, 2, first.limbs);
        spans.push_back(results.back().span());
    }
    {
        const nb::gil_scoped_release release;
        relinearised_sums(context, left.views, right.views, factors, switching_key.view(), spans);
    }
    std::vector<Words> arrays;
    for (CiphertextResult& result : results) arrays.push_back(result.array());
    return arrays;
}

nb::object multiply_plain_sum_of(const Context& context, const std::vector<AnyArray>& plaintexts,
                                 const std::vector<AnyArray>& cts, const nb::object& accumulator) {
    if (plaintexts.size() != cts.size()) {
        fail("cts", std::to_string(plaintexts.size()) + " ciphertexts", std::to_string(cts.size()));
    }
    const Factors factors(context, cts, "cts");
    const int limbs = factors.views.front().limbs;
    std::vector<Factor> arguments;
    std::vector<FactorView> views;
    for (const AnyArray& array : plaintexts) {
        arguments.emplace_back(context, array, "plaintexts", false);
        views.push_back(arguments.back().view());
        if (views.back().limbs != limbs) {
            fail("plaintexts", "factors of " + std::to_string(limbs) + " limbs", shape_text(array));
        }
    }
    Accumulator sum(context, accumulator, 2, limbs, {&plaintexts, &cts});
    {
        const nb::gil_scoped_release release;
        multiply_plain_sum(context, views, factors.views, sum.accumulates(), sum.span());
    }
    return sum.object();
}

std::vector<Words> weighted_sums_of(const Context& context, const std::vector<AnyArray>& blocks,
                                    const std::vector<std::vector<std::uint32_t>>& terms,
                                    const std::vector<AnyArray>& cts) {
    const Factors factors(context, cts, "cts");
    const int limbs = factors.views.front().limbs;
    if (blocks.empty() || blocks.size() != terms.size()) {
        fail("terms", std::to_string(blocks.size()) + " lists, one for each block",
             std::to_string(terms.size()));
    }
    const std::size_t width = blocks.front().ndim() == 4 ? blocks.front().shape(3) : 0;
    if (width < 64 || context.n() % width != 0) {
        fail("blocks", "(halves, N / width, terms, width), width a multiple of 64",
             shape_text(blocks.front()));
    }
    const std::int64_t halves = length(factor_halves(context, limbs, false));
    std::vector<Argument<std::uint32_t, Layout::kPacked>> arguments;
    std::vector<WeightBlock> views;
    std::vector<CiphertextResult> results;
    std::vector<CiphertextSpan> spans;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
        const std::vector<std::int64_t> shape = {halves, length(context.n() / width), length(terms[b].size()),
                                                 length(width)};
        arguments.emplace_back(blocks[b], "blocks", shape);
        for (const std::uint32_t term : terms[b]) {
            if (term >= cts.size())
                fail("terms", "below " + std::to_string(cts.size()), std::to_string(term));
        }
        views.push_back({arguments.back().data(), terms[b]});
        results.emplace_back(context, 2, limbs);
        spans.push_back(results.back().span());
    }
    {
        const nb::gil_scoped_release release;
        weighted_sums(context, views, width, factors.views, spans);
    }
    std::vector<Words> arrays;
    for (CiphertextResult& result : results) arrays.push_back(result.array());
    return arrays;
}

std::vector<Words> polynomial_sums_of(const Context& context, const AnyArray& polynomials,
                                      const std::vector<AnyArray>& cts) {
    const Factors factors(context, cts, "cts");
    const Argument<std::int64_t, Layout::kPacked> coefficients(polynomials, "polynomials",
                                                               {kAny, length(cts.size()), kAny});
    const std::size_t outputs = polynomials.shape(0), count = polynomials.shape(2);
    if (outputs == 0 || count < 8 || !std::has_single_bit(count) || context.n() % count != 0) {
        fail("polynomials", "(outputs, terms, count), at least one output, count a power of two from 8 to N",
             shape_text(polynomials));
    }
    std::vector<CiphertextResult> results;
    std::vector<CiphertextSpan> spans;
    for (std::size_t o = 0; o < outputs; ++o) {
        results.emplace_back(context, 2, factors.views.front().limbs);
        spans.push_back(results.back().span());
    }
    {
        const nb::gil_scoped_release release;
        polynomial_sums(context, coefficients.data(), count, factors.views, spans);
    }
    std::vector<Words> arrays;
    for (CiphertextResult& result : results) arrays.push_back(result.array());
    return arrays;
}

Words rescale_by(const Context& context, const AnyArray& ct, int count) {
    const Ciphertext x(context, ct, "ct", kMostComponents);
    const int most = std::min(x.view().limbs - 1, BaseConversion::kMaxSources);
    if (count < 1 || count > most) {
        fail("rescale count",
             "1 to " + std::to_string(most) + " for " + std::to_string(x.view().limbs) + " limbs",
             std::to_string(count));
    }
    CiphertextResult result(context, x.view().components, x.view().limbs - count);
    {
        const nb::gil_scoped_release release;
        rescale(context, x.view(), count, result.span());
    }
    return result.array();
}

Words drop(const Context& context, const AnyArray& ct, int limbs) {
    const Ciphertext x(context, ct, "ct", kMostComponents);
    if (limbs < 1 || limbs > x.view().limbs) {
        fail("limbs", "1 to " + std::to_string(x.view().limbs), std::to_string(limbs));
    }
    CiphertextResult result(context, x.view().components, limbs);
    {
        const nb::gil_scoped_release release;
        const std::size_t rows = static_cast<std::size_t>(x.view().components * limbs);
        parallel_for(rows, threads_for_work(rows, rows * context.n()), [&](std::size_t row, int) {
            const int component = static_cast<int>(row) / limbs;
            const int limb = static_cast<int>(row) % limbs;
            std::memcpy(result.span().limb(component, limb), x.view().limb(component, limb),
                        context.n() * sizeof(std::uint64_t));
        });
    }
    return result.array();
}

Words relinearise_with(const Context& context, const AnyArray& ct3, const AnyArray& key, bool rescale) {
    const Ciphertext x(context, ct3, "ct3");
    const SwitchingKey switching_key(context, key, "relinearisation key");
    if (rescale && x.view().limbs < 2) fail("ct3", "at least 2 limbs for a rescale", "1");
    CiphertextResult result(context, 2, x.view().limbs - (rescale ? 1 : 0));
    {
        const nb::gil_scoped_release release;
        relinearise(context, x.view(), switching_key.view(), rescale, result.span().data);
    }
    return result.array();
}

Words multiply_relinearise_with(const Context& context, const AnyArray& left, const AnyArray& right,
                                const AnyArray& key, const nb::object& left_factor) {
    const Ciphertext x(context, left, "left"), y(context, right, "right");
    const SwitchingKey switching_key(context, key, "relinearisation key");
    const std::vector<std::uint64_t> left_factors = residues_of(context, left_factor, x.view().limbs);
    ProductView product{x.view(), y.view()};
    if (!left_factor.equal(nb::int_(1))) product.left_factors = left_factors.data();
    CiphertextResult result(context, 2, x.view().limbs);
    {
        const nb::gil_scoped_release release;
        multiply_relinearise(context, product, switching_key.view(), false, result.span().data);
    }
    return result.array();
}

Words multiply_rescale(const Context& context, const AnyArray& left, const AnyArray& right,
                       const AnyArray& key, const nb::object& factor, const std::optional<AnyArray>& added,
                       const nb::object& added_factor, const nb::object& constant,
                       const nb::object& left_factor) {
    const Ciphertext x(context, left, "left"), y(context, right, "right");
    const SwitchingKey switching_key(context, key, "relinearisation key");
    const int limbs = x.view().limbs;
    if (limbs < 2) fail("left", "at least 2 limbs for a rescale", "1");
    ProductView product{x.view(), y.view()};
    const std::vector<std::uint64_t> factors = residues_of(context, factor, limbs);
    const std::vector<std::uint64_t> added_factors = residues_of(context, added_factor, limbs);
    const std::vector<std::uint64_t> constants = residues_of(context, constant, limbs);
    const std::vector<std::uint64_t> left_factors = residues_of(context, left_factor, limbs);
    if (!factor.equal(nb::int_(1))) product.factors = factors.data();
    if (!constant.equal(nb::int_(0))) product.constants = constants.data();
    if (!left_factor.equal(nb::int_(1))) product.left_factors = left_factors.data();
    std::optional<Ciphertext> z;
    if (added) {
        z.emplace(context, *added, "added");
        product.added = z->view();
        product.added_factors = added_factors.data();
    }
    CiphertextResult result(context, 2, limbs - 1);
    {
        const nb::gil_scoped_release release;
        multiply_relinearise(context, product, switching_key.view(), true, result.span().data);
    }
    return result.array();
}

using Term = std::tuple<int, int, std::uint64_t, int, int>;
using PackedRows = std::vector<Argument<std::uint64_t, Layout::kPacked>>;

// A plaintext in NTT Montgomery form; `rows` keeps what it views.
PlaintextView plaintext_rows(const Context& context, const AnyArray& plaintext, PackedRows& rows) {
    rows.emplace_back(plaintext, "plaintexts", std::vector<std::int64_t>{kAny, length(context.n())});
    const std::int64_t limbs = length(rows.back().shape(0)) - context.num_p();
    if (limbs < 1 || limbs > context.num_q()) {
        fail("plaintexts",
             "rows of 1 to " + std::to_string(context.num_q()) + " limbs and " +
                 std::to_string(context.num_p()) + " special limbs",
             shape_text(plaintext));
    }
    return {nullptr, rows.back().data(), static_cast<int>(limbs), false};
}

// Galois element, number of the key or -1, and (baby step, plaintext) of each term.
using Giant = std::tuple<std::uint64_t, int, std::vector<std::tuple<int, int>>>;

std::vector<Words> giant_steps(const Context& context, const std::vector<AnyArray>& sources,
                               const std::vector<std::tuple<std::uint64_t, int>>& babies,
                               const std::vector<Giant>& giants, const std::vector<AnyArray>& keys,
                               const std::vector<AnyArray>& plaintexts) {
    if (sources.empty()) fail("sources", "at least one ciphertext", "none");
    const Factors inputs(context, sources, "sources", kMostComponents);
    const CiphertextView& first = inputs.views.front();
    if (first.limbs < 2) fail("limbs", "at least 2 for a rescale", std::to_string(first.limbs));
    std::vector<SwitchingKey> key_arguments;
    std::vector<Factor> factors;
    GiantSteps steps;
    steps.sources = inputs.views;
    for (const auto& [galois, key] : babies) steps.babies.push_back({galois, key});
    for (const auto& [galois, key, terms] : giants) {
        steps.giants.push_back({{galois, key}, {}});
        for (const auto& [baby, plaintext] : terms) steps.giants.back().terms.push_back({baby, plaintext});
    }
    for (const AnyArray& key : keys) {
        key_arguments.emplace_back(context, key, "keys");
        steps.keys.push_back(key_arguments.back().view());
    }
    for (const AnyArray& plaintext : plaintexts) {
        factors.emplace_back(context, plaintext, "plaintexts", true);
        steps.plaintexts.push_back(factors.back().view());
    }
    std::vector<CiphertextResult> results;
    std::vector<std::uint64_t*> data;
    for (std::size_t s = 0; s < sources.size(); ++s) {
        results.emplace_back(context, first.components, first.limbs - 1);
        data.push_back(results.back().span().data);
    }
    {
        const nb::gil_scoped_release release;
        run_giant_steps(context, steps, data.data());
    }
    std::vector<Words> arrays;
    for (CiphertextResult& result : results) arrays.push_back(result.array());
    return arrays;
}

std::vector<Words> coefficient_parts(const Context& context, const std::vector<AnyArray>& sources, int level,
                                     int parts, int outputs, const std::vector<AnyArray>& keys) {
    const Factors inputs(context, sources, "sources");
    std::vector<SwitchingKey> key_arguments;
    CoefficientParts of{inputs.views, level, parts, outputs, {}};
    for (const AnyArray& key : keys) {
        key_arguments.emplace_back(context, key, "keys");
        of.keys.push_back(key_arguments.back().view());
    }
    check(context, of);
    std::vector<CiphertextResult> results;
    std::vector<std::uint64_t*> data;
    for (std::size_t r = 0; r < sources.size() * static_cast<std::size_t>(outputs); ++r) {
        results.emplace_back(context, 2, inputs.views.front().limbs);
        data.push_back(results.back().span().data);
    }
    {
        const nb::gil_scoped_release release;
        run_coefficient_parts(context, of, data.data());
    }
    std::vector<Words> arrays;
    for (CiphertextResult& result : results) arrays.push_back(result.array());
    return arrays;
}

std::vector<Words> linear_transform(const Context& context, const std::vector<AnyArray>& sources,
                                    const std::vector<Term>& terms, const std::vector<AnyArray>& keys,
                                    const std::vector<AnyArray>& plaintexts, int outputs, bool rescale,
                                    const std::string& order, bool divide) {
    if (order != "limb" && order != "rotation") fail("order", "'limb' or 'rotation'", "'" + order + "'");
    if (sources.empty()) fail("sources", "at least one ciphertext", "none");
    if (outputs < 0 || outputs > (1 << 20)) fail("outputs", "0 to 1048576", std::to_string(outputs));
    const Factors inputs(context, sources, "sources", kMostComponents);
    std::vector<SwitchingKey> key_arguments;
    std::vector<Coefficients> coefficients;
    PackedRows rows;
    Transform transform;
    transform.limbs = inputs.views.front().limbs;
    transform.outputs = outputs;
    transform.rescale = rescale;
    transform.divide = divide;
    transform.sources = inputs.views;
    for (const AnyArray& key : keys) {
        key_arguments.emplace_back(context, key, "keys");
        transform.keys.push_back(key_arguments.back().view());
    }
    for (const AnyArray& plaintext : plaintexts) {
        if (plaintext.dtype() == nb::dtype<std::int64_t>()) {
            coefficients.emplace_back(context, plaintext, "plaintexts");
            const std::int64_t* values = coefficients.back().data();
            transform.plaintexts.push_back({values, nullptr, 0, is_symmetric(values, context.n())});
        } else {
            transform.plaintexts.push_back(plaintext_rows(context, plaintext, rows));
        }
    }
    for (const auto& [output, source, galois, key, plaintext] : terms) {
        transform.terms.push_back({output, source, galois, key, plaintext});
    }

    std::vector<CiphertextResult> results;
    std::vector<std::uint64_t*> data;
    const int kept = transform.limbs - (rescale ? 1 : 0);
    if (kept < 1) fail("sources", "at least 2 limbs for a rescale", "1");
    const int components = inputs.views.front().components;
    const int out_limbs = divide ? kept : transform.limbs + context.num_p();
    const std::size_t lengths[] = {static_cast<std::size_t>(outputs), static_cast<std::size_t>(components),
                                   static_cast<std::size_t>(out_limbs), context.n()};
    check_room(bytes_of(lengths, 4, sizeof(std::uint64_t)));
    for (int o = 0; o < outputs; ++o) {
        results.emplace_back(context, components, out_limbs);
        data.push_back(results.back().span().data);
    }
    {
        const nb::gil_scoped_release release;
        run_transform(context, transform, order == "limb" ? TransformOrder::kLimb : TransformOrder::kRotation,
                      data.data());
    }
    std::vector<Words> arrays;
    for (CiphertextResult& result : results) arrays.push_back(result.array());
    return arrays;
}

Words divide_sums(const Context& context, const std::vector<AnyArray>& sums, bool rescale) {
    if (sums.empty()) fail("sums", "at least one", "none");
    std::vector<Argument<std::uint64_t, Layout::kPacked>> arguments;
    std::vector<const std::uint64_t*> data;
    std::int64_t rows = kAny;
    for (const AnyArray& sum : sums) {
        arguments.emplace_back(sum, "sums", std::vector<std::int64_t>{2, rows, length(context.n())});
        rows = length(arguments.back().shape(1));
        data.push_back(arguments.back().data());
    }
    const int limbs = static_cast<int>(rows) - context.num_p();
    if (limbs < (rescale ? 2 : 1) || limbs > context.num_q()) {
        fail("sums", "special limbs and limbs of ciphertexts", std::to_string(rows) + " limbs");
    }
    CiphertextResult result(context, 2, limbs - (rescale ? 1 : 0));
    {
        const nb::gil_scoped_release release;
        cipherblas::divide_sums(context, data, limbs, rescale, result.span().data);
    }
    return result.array();
}

}  // namespace

void bind_server(nb::class_<Context>& context) {
    context.def("add", &binary<add>, "x"_a, "y"_a, "x + y; equal limbs, a missing component is 0.")
        .def("sub", &binary<subtract>, "x"_a, "y"_a, "x - y; equal limbs, a missing component is 0.")
        .def("neg", &neg, "x"_a, "-x")
        .def("add_plain", &with_plaintext<add_plain>, "ct"_a, "pt"_a, "ct + pt; pt (limbs, N) in NTT form.")
        .def("multiply_plain", &with_plaintext<multiply_plain>, "ct"_a, "pt_montgomery"_a,
             "ct pt; pt (limbs, N) in NTT Montgomery form. The scales multiply; no level is spent.")
        .def("multiply_scalar", &multiply_scalar_by, "ct"_a, "value"_a, "ct times an integer of any size.")
        .def("scaled_sums", &scaled_sums_of, "sums"_a,
             "Of every sum (cts, values, constant) that of ct_t value_t, and a constant in every slot of the "
             "first "
             "component:\n"
             "integers of any size. A ciphertext that several sums have is read once.")
        .def("multiply_sum", &multiply_sum_of, "lefts"_a, "rights"_a, "accumulator"_a.none() = nb::none(),
             "(accumulator +) sum of left_t right_t with three components; the accumulator is updated in "
             "place.")
        .def("relinearised_sums", &relinearised_sums_of, "lefts"_a, "rights"_a, "key"_a, "factor"_a = 1,
             "For every list of left factors, and each of right ones, the sum of left_t right_t, times the "
             "factor, "
             "relinearised.")
        .def("weighted_sums", &weighted_sums_of, "blocks"_a, "terms"_a, "cts"_a,
             "For every block of plaintexts, as write_weights leaves them, their products with the "
             "ciphertexts "
             "that its list\n"
             "of terms names, summed up.")
        .def("polynomial_sums", &polynomial_sums_of, "polynomials"_a, "cts"_a,
             "For every list of clear polynomials, int64 (outputs, terms, count), the sum of polynomial_t "
             "ct_t: "
             "count\n"
             "coefficients from the constant one on, a power of two, 8 at least.")
        .def("multiply_plain_sum", &multiply_plain_sum_of, "plaintexts"_a, "cts"_a,
             "accumulator"_a.none() = nb::none(),
             "(accumulator +) sum of plaintext_t ciphertext_t; plaintexts of `factor`.")
        .def("rescale", &rescale_by, "ct"_a, "count"_a = 1,
             "Division with rounding by the last `count` limbs.")
        .def("drop", &drop, "ct"_a, "limbs"_a, "A copy of the first `limbs` limbs.")
        .def("multiply_relinearise", &multiply_relinearise_with, "left"_a, "right"_a, "key"_a,
             "left_factor"_a = 1,
             "The relinearised product of two ciphertexts, the left one times an integer; neither is ever "
             "stored.")
        .def("multiply_rescale", &multiply_rescale, "left"_a, "right"_a, "key"_a, "factor"_a,
             "added"_a.none(), "added_factor"_a, "constant"_a, "left_factor"_a = 1,
             "left_factor left right factor + added added_factor + constant in every slot, relinearised and "
             "divided by "
             "the last limb\n"
             "in one ModDown: integers of any size, `added` a ciphertext or None.")
        .def("relinearise", &relinearise_with, "ct3"_a, "key"_a, "rescale"_a = false,
             "(b, a, c2) -> (b, a) with the key of s^2; with `rescale` divided by the last limb in the same "
             "ModDown.")
        .def("coefficient_parts", &coefficient_parts, "sources"_a, "level"_a, "parts"_a, "outputs"_a,
             "keys"_a,
             "Of each source, a polynomial in X^(2^level), the first parts by exponents modulo 2^level times "
             "parts (2, "
             "4 or 8),\n"
             "times parts. keys: number k - 1 is of the product of X -> X^(1 + N / 2^(level + j)) over the "
             "binary "
             "digits j of\n"
             "k, parts - 1 of them.")
        .def("giant_steps", &giant_steps, "sources"_a, "babies"_a, "giants"_a, "keys"_a, "plaintexts"_a,
             "Of each source the sum of automorphism_g(sum of plaintext * automorphism_b(source)), divided "
             "by the "
             "last limb in\n"
             "the same ModDown. Keys and plaintexts are read once for all sources.\n\n"
             "sources, keys: as of linear_transform. babies: (galois, key index, or -1 for 1 alone). giants: "
             "the "
             "same, and a list\n"
             "of (baby index, plaintext index). Plaintexts: of `factor`, with special limbs.")
        .def("linear_transform", &linear_transform, "sources"_a, "terms"_a, "keys"_a, "plaintexts"_a,
             "outputs"_a, "rescale"_a, "order"_a, "divide"_a = true,
             "Sums of plaintext * automorphism(source) with one ModDown per output.\n\n"
             "Sources: (b, a), or (b_1, ..., b_r, a) with an even number of components, of which each two "
             "have a "
             "key of their\n"
             "own: so many in a row for each number of a key. "
             "terms: (output, source, galois, key index or -1, plaintext index or -1). Keys may be made for "
             "more limbs\n"
             "than the sources have. Plaintexts: coefficients int64 (N,), or uint64 (limbs + k, N) in NTT "
             "Montgomery\n"
             "form. order: 'limb' (MO-HLT, FAME) or 'rotation' (coarse); both give the same bits. Without "
             "divide outputs\n"
             "are the sums modulo Q P, (components, limbs + k, N), for divide_sums.")
        .def("divide_sums", &divide_sums, "sums"_a, "rescale"_a,
             "The ModDown of linear_transform, of the sum of undivided outputs, each (2, limbs + k, N).");
}

}  // namespace cipherblas::core
