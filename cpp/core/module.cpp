// The extension module cipherblas._core: a thin binding that checks arguments and releases the interpreter lock.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arith/primes.h"
#include "ckks/arithmetic.h"
#include "core/arrays.h"
#include "gemm/kernels/counting.h"
#include "ring/automorphism.h"
#include "ring/kernels.h"
#include "ring/kernels/counting.h"
#include "ring/machine.h"
#include "ring/row_transform.h"
#include "ring/samplers.h"
#include "ring/threads.h"
#include "rlwe/transform.h"

namespace nb = nanobind;
using namespace nb::literals;

NB_MODULE(_core, m) {
    // Contexts are cached for the life of the process: at its end they are still in use, not leaked.
    nb::set_leak_warnings(false);
    using cipherblas::Context;
    m.doc() = "RNS ring arithmetic, key switching and CKKS operations on NumPy arrays of limbs.";

    m.def("primes", &cipherblas::primes_below, "n"_a, "bits"_a, "count"_a,
          "exclude"_a = std::vector<std::uint64_t>(),
          "Primes that are 1 mod 2n, the largest below 2^bits first.");
    m.def("primes_near", &cipherblas::primes_near, "n"_a, "target"_a, "count"_a,
          "exclude"_a = std::vector<std::uint64_t>(),
          "Primes that are 1 mod 2n and below 2^50, nearest to target first.");
    m.def("isa", [] { return std::string(cipherblas::kernels().name); }, "The instruction set in use.");
    m.def(
        "isas",
        [] {
            std::vector<std::string> names;
            for (const char* name : {"scalar", "avx2", "avx512ifma"}) {
                if (cipherblas::kernels_by_name(name) != nullptr) names.emplace_back(name);
            }
            return names;
        },
        "The instruction sets that this machine and build have.");
    m.def("set_threads", &cipherblas::set_thread_count, "count"_a, "Threads of every later call.");
    m.def("threads", &cipherblas::thread_count);
    m.def(
        "set_ask",
        [](std::optional<nb::callable> ask) {
            if (!ask) return cipherblas::set_ask({});
            cipherblas::set_ask([ask = std::move(*ask)] {
                const nb::gil_scoped_acquire acquire;
                ask();
            });
        },
        "ask"_a.none(),
        "Calls of this thread call `ask` between the tasks of their loops, ten times a second, and end by "
        "what it "
        "raises; None ends that.");
    m.def(
        "cpu_quota", &cipherblas::cpu_quota, "root"_a = "",
        "Processors' worth of time that control groups grant, or None; `root` stands before all paths read.");
    m.def("processors", &cipherblas::processors, "root"_a = "",
          "Processors that the process may run on, at most as many as its quota keeps busy.");
    m.def("total_memory", &cipherblas::total_memory, "root"_a = "",
          "Bytes of the machine, or the least limit on the process; None where the system does not say.");
    m.def("available_memory", &cipherblas::available_memory, "root"_a = "",
          "Bytes that the process may still take, by the machine and by all limits on it; None as above.");
    m.def(
        "empty", [](std::size_t bytes) { return cipherblas::core::Result<std::uint8_t>({bytes}).array(); },
        "bytes"_a, "So many bytes of the pool, not initialised, aligned to 64 bytes.");
    m.def("pool_bytes", &cipherblas::pool_bytes,
          "Bytes that the memory pool holds, lent out and idle together.");
    m.def("trim_pool", &cipherblas::trim_pool, "Gives idle blocks of the pool back to the system.");

    m.def(
        "count_kernels",
        [](bool on) {
            cipherblas::count_kernels(on);
            cipherblas::gemm::count_kernels(on);
        },
        "on"_a, "Counts what the kernels of every later call do, from zero, or ends that; for tests.");
    m.def(
        "kernel_counts",
        [] {
            cipherblas::KernelCounts counts = cipherblas::kernel_counts();
            for (auto& count : cipherblas::gemm::kernel_counts()) counts.push_back(count);
            return counts;
        },
        "What was counted, name by name; words, if the name says nothing else.");

    m.attr("PACKED_BITS") =
        nb::cast(std::vector<int>(std::begin(cipherblas::kPackedBits), std::end(cipherblas::kPackedBits)));
    m.attr("HALF_WORD_BITS") = cipherblas::kHalfBits;
    m.attr("NOISE_SIGMA") = cipherblas::kNoiseSigma;
    m.attr("LARGEST_NOISE") = cipherblas::kLargestNoise;
    m.attr("PASS_LAYERS") = cipherblas::kPassLayers;
    m.attr("DROPPED_BYTES") = cipherblas::kDroppedBytes;
    m.attr("SUMS_TOGETHER") = cipherblas::kSumsTogether;
    m.attr("LINES_TOGETHER") = cipherblas::kLinesTogether;

    nb::class_<Context> context(m, "Context",
                                "Ring degree, q and special primes, and the digits of key switching.");
    context
        .def(nb::init<std::size_t, const std::vector<std::uint64_t>&, const std::vector<std::uint64_t>&, int,
                      const std::vector<int>&>(),
             "n"_a, "q"_a, "p"_a, "alpha"_a, "digit_limbs"_a = std::vector<int>(),
             nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("n", &Context::n)
        .def_prop_ro("slots", &Context::slots)
        .def_prop_ro("num_q", &Context::num_q)
        .def_prop_ro("num_p", &Context::num_p)
        .def_prop_ro("alpha", &Context::alpha)
        .def_prop_ro("moduli",
                     [](const Context& c) {
                         std::vector<std::uint64_t> moduli;
                         for (int i = 0; i < c.basis().size(); ++i) moduli.push_back(c.modulus(i).q);
                         return moduli;
                     })
        .def(
            "galois_element",
            [](const Context& c, std::int64_t step) { return cipherblas::galois_element(step, c.log_n()); },
            "step"_a, "5^step mod 2N, the automorphism that rotates the slots left by `step`.");
    cipherblas::core::bind_client(context);
    cipherblas::core::bind_server(context);
    cipherblas::core::bind_gemm(m);
    cipherblas::core::bind_transpose(context);
    cipherblas::core::bind_transpose_plan(m);
    cipherblas::core::bind_coefficient_rows(context);
    cipherblas::core::bind_operands(m);
    cipherblas::core::bind_row_elements(context);
}
