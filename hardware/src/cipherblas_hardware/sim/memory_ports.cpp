// The ports of an element and a memory behind them: rows are copied within it, and others are read, while every channel of AXI4
// stalls at random, and two clocks have periods of their own.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

namespace {

constexpr int kBeats = WIDTH / 2, kBits = 2 * DP, kRowBits = DP * WIDTH;

// Bits of a signal, which is an integer or, where it has more than 64, an array of words.
template <typename Signal>
std::uint64_t get(const Signal& signal, int from, int bits) {
    std::uint64_t found = 0;
    for (int b = 0; b < bits; ++b) {
        const int bit = from + b;
        if constexpr (std::is_integral_v<Signal>)
            found |= static_cast<std::uint64_t>(signal >> bit & 1) << b;
        else
            found |= static_cast<std::uint64_t>(signal[bit / 32] >> bit % 32 & 1) << b;
    }
    return found;
}

template <typename Word>
void set(Word& word, int place, bool value) {
    const auto bit = static_cast<Word>(static_cast<Word>(1) << place);
    word = static_cast<Word>(value ? word | bit : word & ~bit);
}

template <typename Signal>
void put(Signal& signal, int from, int bits, std::uint64_t value) {
    for (int b = 0; b < bits; ++b) {
        const int bit = from + b;
        if constexpr (std::is_integral_v<Signal>)
            set(signal, bit, (value >> b & 1) != 0);
        else
            set(signal[bit / 32], bit % 32, (value >> b & 1) != 0);
    }
}

// What the harness is told: of the memory, and of what reads it.
struct Settings {
    std::uint64_t seed, stalls, latency, kernel_period, port_period, beats_per_thousand;
};

struct Burst {
    std::uint64_t row, since;
    bool id;
    int beat;
};

class Bench {
  public:
    Bench(const Settings& settings, std::uint64_t* memory, std::uint64_t rows)
        : top_{&context_}, settings_(settings), random_(settings.seed), memory_(memory), rows_(rows) {
        Verilated::threadContextp(&context_);
        context_.fatalOnError(false);
        top_.rst_ni = top_.port_rst_ni = 0;
        for (int k = 0; k < 4; ++k) {
            top_.clk_i = top_.port_clk_i = k & 1;
            top_.eval();
        }
        top_.clk_i = top_.port_clk_i = 0;
        top_.rst_ni = top_.port_rst_ni = 1;
        top_.eval();
    }

    // Runs `requests` of (kind, first row, rows); rows of kind 0 are written again, the k-th at targets[k], those of kind 1 go
    // to `streamed`. Returns the cycles of the kernel's clock, or -1: an assertion failed, -2: nothing moved for long.
    std::int64_t run(const std::uint64_t* requests, std::uint64_t count, const std::uint64_t* targets,
                     std::uint64_t copies, std::uint64_t* streamed, std::uint64_t streams) {
        for (std::uint64_t k = 0; k < count; ++k) requests_[requests[3 * k]].push_back(requests + 3 * k);
        targets_ = targets;
        streamed_ = streamed;
        std::uint64_t kernel = settings_.kernel_period, port = settings_.port_period;
        while (copied_ < copies || got_ < streams || !top_.written_o) {
            const std::uint64_t now = std::min(kernel, port);
            const bool kernel_edge = kernel == now, port_edge = port == now;
            if (kernel_edge) drive_kernel();
            if (port_edge) drive_ports();
            top_.eval();
            if (kernel_edge) sample_kernel();
            if (port_edge) sample_ports();
            if (kernel_edge) top_.clk_i = 1;
            if (port_edge) top_.port_clk_i = 1;
            top_.eval();
            top_.clk_i = top_.port_clk_i = 0;
            top_.eval();
            if (kernel_edge) {
                kernel += settings_.kernel_period;
                ++cycles_;
            }
            if (port_edge) port += settings_.port_period;
            if (context_.gotError() || wrong_) return -1;
            if (cycles_ > moved_ + 20'000) return -2;
        }
        return static_cast<std::int64_t>(cycles_);
    }

  private:
    bool stalls() { return random_() % 100 < settings_.stalls; }

    void drive_kernel() {
        for (int k = 0; k < 2; ++k) {
            const bool valid = !requests_[k].empty();
            set(top_.request_valid_i, k, valid);
            if (valid) {
                top_.request_first_i = with(top_.request_first_i, k, requests_[k].front()[1]);
                top_.request_rows_i = with(top_.request_rows_i, k, requests_[k].front()[2]);
            }
        }
        // A row that banks load is taken where it can be written again at once; one that streams, where nothing stalls.
        top_.write_valid_i = !held_.empty() && !(pushing_ = pushing_ || !stalls(), !pushing_);
        if (top_.write_valid_i) {
            top_.write_number_i = static_cast<std::uint32_t>(targets_[copied_]);
            for (int lane = 0; lane < DP; ++lane)
                put(top_.write_row_i, lane * WIDTH, WIDTH, held_.front()[lane]);
        }
        set(top_.row_ready_i, 0, held_.size() < 4 && !stalls());
        set(top_.row_ready_i, 1, !stalls());
    }

    void sample_kernel() {
        for (int k = 0; k < 2; ++k) {
            if (is(top_.request_valid_i, k) && is(top_.request_ready_o, k)) requests_[k].pop_front();
            if (is(top_.row_valid_o, k) && is(top_.row_ready_i, k)) {
                std::vector<std::uint64_t> row(DP);
                for (int lane = 0; lane < DP; ++lane)
                    row[lane] = get(top_.row_o, k * kRowBits + lane * WIDTH, WIDTH);
                moved_ = cycles_;
                if (k == 0) {
                    held_.push_back(std::move(row));
                } else {
                    std::copy(row.begin(), row.end(), streamed_ + DP * got_++);
                }
            }
        }
        if (top_.write_valid_i && top_.write_ready_o) {
            held_.pop_front();
            ++copied_;
            pushing_ = false;
            moved_ = cycles_;
        }
    }

    // Memory as AXI4 has it: what is valid stays so until it is taken; beats of one ID come in order.
    void drive_ports() {
        budget_ = std::min(budget_ + settings_.beats_per_thousand, std::uint64_t{1000} * PORTS);
        for (int turn = 0; turn < PORTS; ++turn) {  // none is always the first one
            const int p = static_cast<int>((ticks_ + turn) % PORTS);
            set(top_.arready_i, p, !stalls());
            set(top_.awready_i, p, !stalls());
            set(top_.wready_i, p, !stalls());
            const bool comes = !reads_[p].empty() && reads_[p].front().since <= ticks_ && budget_ >= 1000 &&
                               (offered_[p] || !stalls());
            offered_[p] = comes;
            set(top_.rvalid_i, p, comes);
            if (comes) {
                const Burst& one = reads_[p].front();
                budget_ -= 1000;
                set(top_.rid_i, p, one.id);
                for (int b = 0; b < kBits; ++b) {
                    const int bit = one.beat * kBits + b;
                    const std::uint64_t word = memory_[one.row * DP + bit / WIDTH];
                    put(top_.rdata_i, p * kBits + b, 1, word >> bit % WIDTH & 1);
                }
            }
            answering_[p] = answers_[p] > 0 && (answering_[p] || !stalls());
            set(top_.bvalid_i, p, answering_[p]);
        }
    }

    // What was valid and not taken is valid still, and the same.
    void holds(std::uint64_t (&held)[PORTS], int port, bool valid, bool ready, std::uint64_t value) {
        wrong_ |= held[port] != 0 && (!valid || held[port] != value + 1);
        held[port] = valid && !ready ? value + 1 : 0;
    }

    void sample_ports() {
        for (int p = 0; p < PORTS; ++p) {
            holds(asking_[0], p, is(top_.arvalid_o, p), is(top_.arready_i, p),
                  get(top_.araddr_o, 32 * p, 32) << 1 | is(top_.arid_o, p));
            holds(asking_[1], p, is(top_.awvalid_o, p), is(top_.awready_i, p),
                  get(top_.awaddr_o, 32 * p, 32));
            holds(asking_[2], p, is(top_.wvalid_o, p), is(top_.wready_i, p),
                  get(top_.wdata_o, p * kBits, std::min(kBits, 32)));
            if (is(top_.arvalid_o, p) && is(top_.arready_i, p)) {
                reads_[p].push_back(
                    {row_at(top_.araddr_o, p), ticks_ + settings_.latency, is(top_.arid_o, p), 0});
                wrong_ |= get(top_.arlen_o, 8 * p, 8) != kBeats - 1;
            }
            if (is(top_.rvalid_i, p) && is(top_.rready_o, p)) {
                offered_[p] = false;
                if (++reads_[p].front().beat == kBeats) reads_[p].pop_front();
            }
            if (is(top_.awvalid_o, p) && is(top_.awready_i, p))
                writes_[p].push_back({row_at(top_.awaddr_o, p), 0, false, 0});
            if (is(top_.wvalid_o, p) && is(top_.wready_i, p)) {
                beats_[p].push_back(0);
                beats_[p].back() = get(top_.wdata_o, p * kBits, std::min(kBits, 64));
                wrong_ |= kBits > 64 || is(top_.wlast_o, p) != (++beat_[p] % kBeats == 0);
            }
            if (!writes_[p].empty() && beats_[p].size() >= kBeats) {
                std::uint64_t* row = memory_ + writes_[p].front().row * DP;
                std::fill_n(row, DP, 0);
                for (int bit = 0; bit < kRowBits; ++bit)
                    row[bit / WIDTH] |= (beats_[p][bit / kBits] >> bit % kBits & 1) << bit % WIDTH;
                beats_[p].erase(beats_[p].begin(), beats_[p].begin() + kBeats);
                writes_[p].pop_front();
                ++answers_[p];
            }
            if (is(top_.bvalid_i, p) && is(top_.bready_o, p)) {
                --answers_[p];
                answering_[p] = false;
            }
        }
        ++ticks_;
    }

    // Rows lie at multiples of the least power of two that has room for them.
    template <typename Signal>
    std::uint64_t row_at(const Signal& signal, int port) {
        int stride = 1;
        while (stride < kBeats) stride *= 2;
        const std::uint64_t bytes = get(signal, 32 * port, 32), apart = stride * kBits / 8;
        const std::uint64_t row = bytes / apart * PORTS + port;
        wrong_ |= bytes % apart != 0 || row >= rows_;
        return wrong_ ? 0 : row;
    }

    template <typename Signal>
    static bool is(const Signal& signal, int place) {
        return (signal >> place & 1) != 0;
    }

    static std::uint64_t with(std::uint64_t both, int place, std::uint64_t value) {
        const std::uint64_t mask = 0xFFFFFFFFULL << 32 * place;
        return (both & ~mask) | value << 32 * place;
    }

    VerilatedContext context_;
    Vtop top_;
    Settings settings_;
    std::mt19937_64 random_;
    std::uint64_t* memory_;
    std::uint64_t rows_, cycles_ = 0, ticks_ = 0, moved_ = 0, budget_ = 0, copied_ = 0, got_ = 0;
    const std::uint64_t* targets_ = nullptr;
    std::uint64_t* streamed_ = nullptr;
    bool wrong_ = false, pushing_ = false;
    std::deque<const std::uint64_t*> requests_[2];
    std::deque<std::vector<std::uint64_t>> held_;
    std::deque<Burst> reads_[PORTS], writes_[PORTS];
    std::deque<std::uint64_t> beats_[PORTS];
    std::uint64_t asking_[3][PORTS] = {};
    bool offered_[PORTS] = {}, answering_[PORTS] = {};
    int answers_[PORTS] = {}, beat_[PORTS] = {};
};

}  // namespace

extern "C" std::int64_t run(const std::uint64_t* settings, std::uint64_t* memory, std::uint64_t rows,
                            const std::uint64_t* requests, std::uint64_t count, const std::uint64_t* targets,
                            std::uint64_t copies, std::uint64_t* streamed, std::uint64_t streams) {
    const Settings chosen{settings[0], settings[1], settings[2], settings[3], settings[4], settings[5]};
    return Bench(chosen, memory, rows).run(requests, count, targets, copies, streamed, streams);
}
