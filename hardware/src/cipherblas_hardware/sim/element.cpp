// The simulated element behind a C interface. A program comes with events, which fill banks and tables and read banks beside the
// ports, each before the clock edge of its cycle: memory that always has what the schedule asks for.
#include <algorithm>
#include <cstdint>

#include "Vtop.h"
#include "Vtop___024root.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif

namespace {

struct Event {
    std::uint64_t cycle, kind, place, row, rows;
    std::uint64_t* words;  // of rows; or the number of an entry is `row`, and its value this one's first word
};
enum Kind : std::uint64_t { kWriteRows, kReadRows, kSetScalar, kSetGalois };

template <typename Row>
void put(Row& row, int lane, std::uint64_t word) {
    for (int b = 0; b < WIDTH;) {
        const int bit = lane * WIDTH + b, offset = bit % 32, take = std::min(WIDTH - b, 32 - offset);
        const std::uint32_t mask = (take == 32 ? ~0u : ((1u << take) - 1)) << offset;
        row[bit / 32] = (row[bit / 32] & ~mask) | ((static_cast<std::uint32_t>(word >> b) << offset) & mask);
        b += take;
    }
}

template <typename Row>
std::uint64_t get(const Row& row, int lane) {
    std::uint64_t word = 0;
    for (int b = 0; b < WIDTH;) {
        const int bit = lane * WIDTH + b, offset = bit % 32, take = std::min(WIDTH - b, 32 - offset);
        const std::uint32_t mask = take == 32 ? ~0u : ((1u << take) - 1);
        word |= static_cast<std::uint64_t>((row[bit / 32] >> offset) & mask) << b;
        b += take;
    }
    return word;
}

class Simulation {
  public:
    explicit Simulation(int log_rows) : top_{&context_} {
        use();
        context_.fatalOnError(false);
        top_.rst_ni = 0;
        top_.log_r_i = log_rows;
        top_.instruction_valid_i = 0;
        top_.stream_valid_i = 0;
        top_.entry_valid_i = 0;
        edge();
        edge();
        top_.rst_ni = 1;
        edge();
    }

    ~Simulation() { use(); }

    // A thread has one context of Verilator's, which may be that of a simulation that is gone.
    void use() { Verilated::threadContextp(&context_); }

    void set_modulus(int number, const std::uint64_t* entry) {
        use();
        top_.entry_valid_i = 1;
        top_.entry_table_i = 0;
        top_.entry_number_i = number;
        for (int k = 0; k < 4; ++k) put(top_.entry_i, k, entry[k]);
        edge();
        top_.entry_valid_i = 0;
    }

    // Runs until the lanes are empty and all events are over. Cycle 0 is the first one after the first pass was taken.
    std::int64_t run(const std::uint32_t* program, std::uint64_t passes, const Event* events,
                     std::uint64_t count, const std::uint64_t* stream, std::uint64_t streamed) {
        use();
        const std::uint32_t before = top_.cycles_o;
        std::uint64_t next = 0, event = 0, taken_rows = 0;
        bool begun = false, idle = false;
        for (std::uint64_t cycle = 0; next < passes || event < count || !idle;) {
            if (begun || passes == 0)
                for (; event < count && events[event].cycle <= cycle; ++event) apply(events[event]);
            top_.instruction_valid_i = next < passes;
            if (next < passes) std::copy_n(program + 4 * next, 4, &top_.instruction_i[0]);
            top_.stream_valid_i = taken_rows < streamed;
            if (taken_rows < streamed && presented_ != stream + taken_rows * DP) {
                presented_ = stream + taken_rows * DP;
                for (int lane = 0; lane < DP; ++lane) put(top_.stream_i, lane, presented_[lane]);
            }
            half(0);
            const bool taken = top_.instruction_valid_i && top_.instruction_ready_o;
            idle = top_.idle_o && !taken;
            if (top_.stream_ready_o) ++taken_rows;
            half(1);
            if (context_.gotError()) return -1;
            cycle += begun || passes == 0;
            begun |= taken;
            next += taken;
#if VM_TRACE
            passes_ += taken;
            after_ += passes_ > end_;
#endif
        }
#if VM_TRACE
        if (trace_.isOpen()) trace_.flush();
#endif
        presented_ = nullptr;
        return top_.cycles_o - before;
    }

    std::uint32_t issued() const { return top_.issued_o; }

#if VM_TRACE
    // The signals of so many passes, from a first one of all programs on, until the last one's rows are written.
    void trace(const char* file, std::uint64_t first, std::uint64_t count, std::uint64_t way) {
        use();
        context_.traceEverOn(true);
        top_.trace(&trace_, 1);
        trace_.open(file);
        first_ = first;
        end_ = first + count;
        way_ = way;
    }
#endif

  private:
    void edge() {
        half(0);
        half(1);
    }

    // A level of the clock, and what follows from it.
    void half(int level) {
        top_.clk_i = level;
        top_.eval();
#if VM_TRACE
        // `passes_` have been taken, and the last one of them runs.
        if (trace_.isOpen() && (first_ == 0 || passes_ > first_) && after_ <= way_)
            trace_.dump(context_.time());
        context_.timeInc(1);
#endif
    }

    template <typename Body>
    void with_bank(std::uint64_t bank, Body body) {
        auto& root = *top_.rootp;
        switch (bank) {
            case 0:
                return body(
                    root.element__DOT__i_scratchpad__DOT__g_bank__BRA__0__KET____DOT__i_bank__DOT__rows);
            case 1:
                return body(
                    root.element__DOT__i_scratchpad__DOT__g_bank__BRA__1__KET____DOT__i_bank__DOT__rows);
            case 2:
                return body(
                    root.element__DOT__i_scratchpad__DOT__g_bank__BRA__2__KET____DOT__i_bank__DOT__rows);
            default:
                return body(
                    root.element__DOT__i_scratchpad__DOT__g_bank__BRA__3__KET____DOT__i_bank__DOT__rows);
        }
    }

    void apply(const Event& one) {
        auto& root = *top_.rootp;
        if (one.kind == kSetScalar) {
            root.element__DOT__i_constants__DOT__scalars[one.row] = *one.words;
        } else if (one.kind == kSetGalois) {
            root.element__DOT__i_constants__DOT__galois[one.row] = *one.words;
        } else {
            with_bank(one.place, [&](auto& bank) {
                for (std::uint64_t r = 0; r < one.rows; ++r)
                    for (int lane = 0; lane < DP; ++lane) {
                        std::uint64_t& word = one.words[r * DP + lane];
                        if (one.kind == kWriteRows)
                            put(bank[one.row + r], lane, word);
                        else
                            word = get(bank[one.row + r], lane);
                    }
            });
            for (std::uint64_t r = 0; r < one.rows; ++r) {
                auto& readable = root.element__DOT__i_checks__DOT__readable[one.place][one.row + r];
                if (one.kind == kWriteRows) {
                    readable = 0;
                } else if (readable > root.element__DOT__i_checks__DOT__cycle) {
                    simulation_said("Row %d of bank %d leaves before it is written.\n",
                                    static_cast<int>(one.row + r), static_cast<int>(one.place));
                    context_.gotError(true);
                }
            }
        }
    }

    VerilatedContext context_;
    Vtop top_;
#if VM_TRACE
    VerilatedVcdC trace_;  // closed before what it traces
    std::uint64_t first_ = 0, end_ = 0, way_ = 0, passes_ = 0;
    std::uint64_t after_ = 0;  // cycles since the pass behind the last one began
#endif
    const std::uint64_t* presented_ = nullptr;
};

}  // namespace

extern "C" {

void* create(int log_rows) { return new Simulation(log_rows); }

void destroy(void* simulation) { delete static_cast<Simulation*>(simulation); }

void set_modulus(void* simulation, int number, const std::uint64_t* entry) {
    static_cast<Simulation*>(simulation)->set_modulus(number, entry);
}

std::int64_t run(void* simulation, const std::uint32_t* program, std::uint64_t passes, const Event* events,
                 std::uint64_t count, const std::uint64_t* stream, std::uint64_t streamed) {
    return static_cast<Simulation*>(simulation)->run(program, passes, events, count, stream, streamed);
}

#if VM_TRACE
void trace(void* simulation, const char* file, std::uint64_t first, std::uint64_t count, std::uint64_t way) {
    static_cast<Simulation*>(simulation)->trace(file, first, count, way);
}
#endif

std::uint32_t issued(const void* simulation) { return static_cast<const Simulation*>(simulation)->issued(); }
}
