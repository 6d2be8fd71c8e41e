// A bench of words in and words out behind a C interface: a set of inputs per cycle, and the outputs of every cycle.
#include <cstdint>
#include <cstring>
#include <memory>

#include "Vtop.h"
#include "verilated.h"

extern "C" {

// Outputs number `cycle` are those before the clock edge that takes inputs number `cycle`.
void run_vectors(const std::uint64_t* in, std::uint64_t* out, std::uint64_t cycles) {
    VerilatedContext context;
    Vtop top{&context};
    constexpr std::size_t in_bytes = sizeof(top.x_i), out_bytes = sizeof(top.x_o);
    for (std::uint64_t cycle = 0; cycle < cycles; ++cycle) {
        top.clk_i = 0;
        std::memcpy(&top.x_i, in + cycle * (in_bytes / 8), in_bytes);
        top.eval();
        std::memcpy(out + cycle * (out_bytes / 8), &top.x_o, out_bytes);
        top.clk_i = 1;
        top.eval();
    }
}
}
