// Two lanes and the link between them that a butterfly takes. A lane is an adder, a multiplier and an adder.
//
// The first adder makes a + c, or of a pair even + odd and even - odd; the second one c + p, or even + p and even - p, p
// being the odd lane's product. The inverse transform adds before it multiplies and all else after: one adder could not serve
// both at one row per cycle. Words that no adder takes wait beside it, so all operations have one latency.
module lane_pair
  import fame_pkg::*;
#(
    parameter int Width  = 54,
    parameter int Stages = 4,
    parameter bit Tiled  = 0
) (
    input  logic                               clk_i,
    // Cycles after the operands: 0, 2, Stages + 2, …
    input  arithmetic_e                        first_i,    // at the first adder: 0
    input  arithmetic_e                        second_i,   // at the multiplier: 2
    input  arithmetic_e                        third_i,    // at the second adder: 3 Stages + 7
    input  logic        [Width-1:0]            q_first_i,  // 1
    input  logic        [      5:0]            shift_i,    // Stages + 2
    input  logic                               high_i,     // Stages + 2
    input  logic        [Width-1:0]            mu_i,       // Stages + 3
    input  logic        [Width-1:0]            q_mul_i,    // 2 Stages + 4
    input  logic        [Width-1:0]            q_twice_i,  // 3 Stages + 5
    input  logic        [Width-1:0]            q_once_i,   // 3 Stages + 6
    input  logic        [Width-1:0]            q_third_i,  // 3 Stages + 8
    input  logic        [      1:0][Width-1:0] a_i,
    input  logic        [      1:0][Width-1:0] b_i,
    input  logic        [      1:0][Width-1:0] c_i,
    output logic        [      1:0][Width-1:0] r_o
);
  /* verilator no_inline_module */
  localparam int Multiplier = multiplier_latency(Stages);

  // The first adder.
  logic butterfly_first;
  logic [1:0][Width-1:0] left_first;
  logic [1:0][Width-1:0] right_first;
  logic [1:0][Width-1:0] sum;
  logic [1:0][Width-1:0] a_waiting[2];
  logic [1:0][Width-1:0] b_waiting[2];
  logic [1:0][Width-1:0] c_waiting[2];

  assign butterfly_first = first_i inside {Inverse, Last};
  assign left_first = butterfly_first ? {2{a_i[0]}} : a_i;
  assign right_first = butterfly_first ? {2{a_i[1]}} : c_i;
  for (genvar l = 0; l < 2; l++) begin : g_first
    mod_add #(
        .Width(Width)
    ) i_add (
        .clk_i,
        .subtract_i(butterfly_first && l == 1),
        .a_i(left_first[l]),
        .b_i(right_first[l]),
        .q_i(q_first_i),
        .r_o(sum[l])
    );
  end
  always_ff @(posedge clk_i) begin
    a_waiting[0] <= a_i;
    a_waiting[1] <= a_waiting[0];
    b_waiting[0] <= b_i;
    b_waiting[1] <= b_waiting[0];
    c_waiting[0] <= c_i;
    c_waiting[1] <= c_waiting[0];
  end

  // The multiplier.
  logic [1:0][Width-1:0] y;
  logic [1:0][Width-1:0] p;
  logic [1:0][Width-1:0] y_waiting[Multiplier];
  logic [1:0][Width-1:0] c_third  [Multiplier];

  assign y = second_i inside {Inverse, Last, AddMul, Add} ? sum : a_waiting[1];
  for (genvar l = 0; l < 2; l++) begin : g_multiplier
    mod_mul #(
        .Width (Width),
        .Stages(Stages),
        .Tiled (Tiled)
    ) i_mul (
        .clk_i,
        .a_i(y[l]),
        .b_i(b_waiting[1][l]),
        .shift_i,
        .high_i,
        .mu_i,
        .q_mul_i,
        .q_twice_i,
        .q_once_i,
        .r_o(p[l])
    );
  end
  always_ff @(posedge clk_i) begin
    y_waiting[0] <= y;
    c_third[0]   <= c_waiting[1];
    for (int i = 1; i < Multiplier; i++) begin
      y_waiting[i] <= y_waiting[i-1];
      c_third[i]   <= c_third[i-1];
    end
  end

  // The second adder, and what passes it.
  logic butterfly_third;
  logic [1:0][Width-1:0] left_third;
  logic [1:0][Width-1:0] right_third;
  logic [1:0][Width-1:0] total;
  logic [1:0][Width-1:0] chosen;
  logic [1:0][Width-1:0] passing[2];
  logic takes_total[2];

  assign butterfly_third = third_i == Forward;
  assign left_third = butterfly_third ? {2{y_waiting[Multiplier-1][0]}} : c_third[Multiplier-1];
  assign right_third = butterfly_third ? {2{p[1]}} : p;
  for (genvar l = 0; l < 2; l++) begin : g_third
    mod_add #(
        .Width(Width)
    ) i_add (
        .clk_i,
        .subtract_i(butterfly_third && l == 1),
        .a_i(left_third[l]),
        .b_i(right_third[l]),
        .q_i(q_third_i),
        .r_o(total[l])
    );
  end
  always_comb begin
    unique case (third_i)
      Add: chosen = y_waiting[Multiplier-1];
      Inverse: chosen = {p[1], y_waiting[Multiplier-1][0]};
      default: chosen = p;
    endcase
  end
  always_ff @(posedge clk_i) begin
    passing[0] <= chosen;
    passing[1] <= passing[0];
    takes_total[0] <= third_i inside {Forward, Mac, Last};
    takes_total[1] <= takes_total[0];
  end
  assign r_o = takes_total[1] ? total : passing[1];
endmodule
