#include "rlwe/transform.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "ring/kernels.h"
#include "ring/pool.h"
#include "ring/threads.h"
#include "rlwe/mod_down.h"
#include "rlwe/transform_plan.h"

namespace cipherblas {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& expected, const std::string& got) {
    throw std::invalid_argument(what + ": expected " + expected + ", got " + got);
}

std::string below(std::size_t count) { return "an index below " + std::to_string(count); }

void check_index(const std::string& what, int index, std::size_t count, bool optional) {
    if (index >= (optional ? -1 : 0) && index < static_cast<int>(count)) return;
    fail(what, below(count) + (optional ? " or -1" : ""), std::to_string(index));
}

void check_transform(const Context& context, const Transform& t) {
    context.check_limbs(t.limbs);
    if (t.outputs < 0) fail("outputs", "a count", std::to_string(t.outputs));
    if (t.rescale && t.limbs < 2) fail("limbs", "at least 2 for a rescale", std::to_string(t.limbs));
    if (!t.divide && (t.rescale || context.num_p() == 0)) {
        fail("undivided sums", "no rescale, and special primes", t.rescale ? "a rescale" : "none");
    }
    for (std::size_t s = 0; s < t.sources.size(); ++s) {
        const std::string what = "source " + std::to_string(s);
        if (t.sources[s].components % 2 != 0 || t.sources[s].components != t.sources.front().components) {
            fail(what, "an even number of components, that of all sources",
                 std::to_string(t.sources[s].components));
        }
        if (t.sources[s].limbs != t.limbs) {
            fail(what, std::to_string(t.limbs) + " limbs", std::to_string(t.sources[s].limbs));
        }
    }
    const std::size_t pairs = static_cast<std::size_t>(t.pairs());
    if (t.keys.size() % pairs != 0) {
        fail("keys", "a multiple of " + std::to_string(pairs), std::to_string(t.keys.size()));
    }
    std::vector<int> with_plaintext(static_cast<std::size_t>(t.outputs), -1);
    for (std::size_t i = 0; i < t.terms.size(); ++i) {
        const TransformTerm& term = t.terms[i];
        const std::string what = "term " + std::to_string(i);
        check_index(what + ", output", term.output, static_cast<std::size_t>(t.outputs), false);
        check_index(what + ", source", term.source, t.sources.size(), false);
        check_index(what + ", key", term.key, t.keys.size() / pairs, true);
        check_index(what + ", plaintext", term.plaintext, t.plaintexts.size(), true);
        if (term.galois % 2 == 0 || term.galois >= 2 * context.n()) {
            fail(what + ", Galois element", "an odd number below " + std::to_string(2 * context.n()),
                 std::to_string(term.galois));
        }
        if (term.key < 0 && term.galois != 1) {
            fail(what + ", key", "a key for Galois element " + std::to_string(term.galois), "none");
        }
        if (term.key >= 0) {
            if (context.num_p() == 0) fail(what + ", key", "a context with special primes", "none");
            for (std::size_t p = 0; p < pairs; ++p) {
                const int limbs = t.keys[static_cast<std::size_t>(term.key) * pairs + p].limbs;
                if (limbs < t.limbs) {
                    fail(what + ", key", "a key for at least " + std::to_string(t.limbs) + " limbs",
                         std::to_string(limbs));
                }
            }
        }
        if (term.plaintext >= 0) {
            const PlaintextView& plaintext = t.plaintexts[static_cast<std::size_t>(term.plaintext)];
            if (plaintext.coefficients == nullptr && plaintext.limbs < t.limbs) {
                fail(what + ", plaintext", "at least " + std::to_string(t.limbs) + " q limbs",
                     std::to_string(plaintext.limbs));
            }
        }
        int& kind = with_plaintext[static_cast<std::size_t>(term.output)];
        const int is_plain = term.plaintext >= 0 ? 1 : 0;
        if (kind >= 0 && kind != is_plain) {
            fail(what,
                 "the terms of output " + std::to_string(term.output) + " all with or all without plaintexts",
                 "a mixture");
        }
        kind = is_plain;
    }
}

}  // namespace

void TransformPlan::add_parts(const PlannedSource& source, int limb, bool second, RotationTerm& term) const {
    if (is_special(limb) && !source.extended) return;
    const Modulus& m = context->modulus(limb);
    const bool times_p = extended && !source.extended;
    term.add_factor = to_montgomery(times_p ? context->conversion(0, 0, true).product(limb) : 1, m);
    const int row = is_special(limb) ? limbs + limb - context->num_q() : limb;
    if (source.parts[0].data != nullptr) term.add0 = source.parts[0].limb(row);
    if (second && source.parts[1].data != nullptr) term.add1 = source.parts[1].limb(row);
}

void add_sources(TransformPlan& plan, const std::vector<CiphertextView>& sources) {
    for (const CiphertextView& source : sources) {
        for (int c = 0; c < source.components; c += 2) {
            const bool last = c + 2 == source.components;
            const PolynomialView second = last ? PolynomialView{} : source.component(c + 1);
            plan.sources.push_back({{source.component(c), second},
                                    {source.component(source.components - 1), nullptr},
                                    false,
                                    !last});
        }
    }
}

void find_alike(TransformPlan& plan) {
    std::map<std::pair<const std::uint64_t*, std::ptrdiff_t>, int> first;
    for (std::size_t s = 0; s < plan.sources.size(); ++s) {
        PlannedSource& source = plan.sources[s];
        if (!source.decomposed) continue;
        const PolynomialView& view = source.switched.view;
        const auto [found, fresh] = first.try_emplace({view.data, view.limb_stride}, static_cast<int>(s));
        if (fresh) continue;
        const PlannedSource& other = plan.sources[static_cast<std::size_t>(found->second)];
        if (other.parts[0].data != source.parts[0].data) source.alike = found->second;
    }
}

void finish_plan(TransformPlan& plan, bool rescale) {
    plan.kept = plan.limbs - (rescale ? 1 : 0);
    if (plan.extended || rescale) {
        plan.dropped = &plan.context->conversion(rescale ? plan.kept : 0, rescale ? 1 : 0, plan.extended);
    }
}

const std::uint64_t* plaintext_limb(const TransformPlan& plan, const PlaintextView& plaintext, int limb,
                                    std::uint64_t* scratch) {
    const std::size_t n = plan.context->n();
    if (plaintext.coefficients == nullptr) {
        const int row = plan.is_special(limb) ? plaintext.limbs + limb - plan.context->num_q() : limb;
        return plaintext.rows + static_cast<std::size_t>(row) * n;
    }
    const Kernels& k = kernels();
    const Modulus& m = plan.context->modulus(limb);
    k.ntt_of_signed(scratch, plaintext.coefficients, m.r_mod_q, plaintext.symmetric,
                    plan.context->table(limb));
    return scratch;
}

void run_transform(const Context& context, const Transform& transform, TransformOrder order,
                   std::uint64_t* const* out) {
    check_transform(context, transform);
    TransformPlan plan;
    plan.context = &context;
    plan.limbs = transform.limbs;
    plan.outputs = transform.outputs;
    const std::size_t pairs = static_cast<std::size_t>(transform.pairs());
    add_sources(plan, transform.sources);
    plan.outputs *= static_cast<int>(pairs);  // pair by pair
    plan.first_term.assign(static_cast<std::size_t>(plan.outputs) + 1, 0);
    for (const TransformTerm& term : transform.terms) {
        const std::size_t source = static_cast<std::size_t>(term.source) * pairs;
        for (std::size_t p = 0; p < pairs; ++p) {
            ++plan.first_term[static_cast<std::size_t>(term.output) * pairs + p + 1];
            plan.sources[source + p].decomposed = plan.sources[source + p].decomposed || term.key >= 0;
        }
        if (term.key >= 0) {
            plan.extended = true;
        } else {
            PlannedSource& last = plan.sources[source + pairs - 1];
            last.parts[1] = last.switched.view;
        }
    }
    find_alike(plan);
    for (std::size_t o = 1; o < plan.first_term.size(); ++o) plan.first_term[o] += plan.first_term[o - 1];
    std::vector<std::size_t> next = plan.first_term;
    plan.terms.resize(transform.terms.size() * pairs);
    for (const TransformTerm& term : transform.terms) {
        for (std::size_t p = 0; p < pairs; ++p) {
            PlannedTerm& planned = plan.terms[next[static_cast<std::size_t>(term.output) * pairs + p]++];
            planned.source = term.source * static_cast<int>(pairs) + static_cast<int>(p);
            if (term.key >= 0) planned.key = &transform.keys[static_cast<std::size_t>(term.key) * pairs + p];
            if (term.plaintext >= 0)
                planned.plaintext = &transform.plaintexts[static_cast<std::size_t>(term.plaintext)];
            if (term.galois != 1) planned.permutation = context.basis().permutation(term.galois);
        }
    }
    if (transform.divide) {
        finish_plan(plan, transform.rescale);
    } else {
        plan.extended = true;
        plan.kept = plan.limbs + context.num_p();
    }
    std::vector<std::uint64_t*> outputs;
    for (std::size_t o = 0; o < static_cast<std::size_t>(plan.outputs); ++o) {
        outputs.push_back(out[o / pairs] + o % pairs * 2 * static_cast<std::size_t>(plan.kept) * context.n());
    }
    (order == TransformOrder::kLimb ? run_limb_order : run_rotation_order)(plan, outputs.data());
}

namespace {

// One source, one term, one output.
void relinearise_source(const Context& context, const PlannedSource& source, int limbs,
                        const SwitchingKeyView& key, bool rescale, std::uint64_t* out) {
    context.check_limbs(limbs);
    if (rescale && limbs < 2) fail("limbs", "at least 2 for a rescale", std::to_string(limbs));
    if (context.num_p() == 0) fail("relinearise", "a context with special primes", "none");
    if (key.limbs < limbs) {
        fail("relinearisation key", "a key for at least " + std::to_string(limbs) + " limbs",
             std::to_string(key.limbs));
    }
    TransformPlan plan;
    plan.context = &context;
    plan.limbs = limbs;
    plan.outputs = 1;
    plan.extended = true;
    plan.sources.push_back(source);
    plan.terms.push_back({0, &key, nullptr, nullptr});
    plan.first_term = {0, 1};
    finish_plan(plan, rescale);
    run_limb_order(plan, &out);
}

}  // namespace

void divide_sums(const Context& context, const std::vector<const std::uint64_t*>& sums, int limbs,
                 bool rescale, std::uint64_t* out) {
    context.check_limbs(limbs);
    if (sums.empty()) fail("sums", "at least one", "none");
    TransformPlan plan;
    plan.context = &context;
    plan.limbs = limbs;
    plan.extended = true;
    finish_plan(plan, rescale);
    const std::size_t n = context.n(), kept = static_cast<std::size_t>(plan.kept);
    const std::size_t rows = static_cast<std::size_t>(limbs + context.num_p());
    const Buffer total = Buffer::of_words(2 * rows * n);
    parallel_for(2 * rows, [&](std::size_t row) {
        std::uint64_t* const x = total.words() + row * n;
        std::copy_n(sums.front() + row * n, n, x);
        const Modulus& m = context.modulus(plan.kept_limb(static_cast<int>(row % rows)));
        for (std::size_t s = 1; s < sums.size(); ++s) kernels().add(x, x, sums[s] + row * n, n, m);
    });
    std::vector<const std::uint64_t*> dropped, kept_limbs;
    std::vector<std::uint64_t*> out_limbs;
    for (std::size_t c = 0; c < 2; ++c) {
        for (const int limb : plan.dropped->sources()) {
            const int row = plan.is_special(limb) ? limbs + limb - context.num_q() : limb;
            dropped.push_back(total.words() + (c * rows + static_cast<std::size_t>(row)) * n);
        }
        for (std::size_t j = 0; j < kept; ++j) {
            kept_limbs.push_back(total.words() + (c * rows + j) * n);
            out_limbs.push_back(out + (c * kept + j) * n);
        }
    }
    mod_down(context, *plan.dropped, 2, plan.kept, dropped.data(), kept_limbs.data(), out_limbs.data());
}

void relinearise(const Context& context, const CiphertextView& ciphertext, const SwitchingKeyView& key,
                 bool rescale, std::uint64_t* out) {
    if (ciphertext.components != 3)
        fail("relinearise", "3 components", std::to_string(ciphertext.components));
    const PlannedSource source{
        {ciphertext.component(0), ciphertext.component(1)}, {ciphertext.component(2), nullptr}, true, true};
    relinearise_source(context, source, ciphertext.limbs, key, rescale, out);
}

void multiply_relinearise(const Context& context, const ProductView& product, const SwitchingKeyView& key,
                          bool rescale, std::uint64_t* out) {
    const auto check = [&](const char* name, const CiphertextView& ciphertext) {
        if (ciphertext.components != 2) fail(name, "2 components", std::to_string(ciphertext.components));
        if (ciphertext.limbs != product.left.limbs) {
            fail(name, std::to_string(product.left.limbs) + " limbs", std::to_string(ciphertext.limbs));
        }
    };
    check("left", product.left);
    check("right", product.right);
    if (product.added.data != nullptr) check("added", product.added);
    const std::uint64_t* factors = product.factors == nullptr ? product.left_factors : product.factors;
    std::vector<std::uint64_t> both;
    if (product.factors != nullptr && product.left_factors != nullptr) {
        for (int i = 0; i < product.left.limbs; ++i) {
            both.push_back(mul_mod(product.factors[i], product.left_factors[i], context.modulus(i)));
        }
        factors = both.data();
    }
    relinearise_source(context, {{}, {{}, &product, factors}, true, true}, product.left.limbs, key, rescale,
                       out);
}

}  // namespace cipherblas
