// The arithmetic by itself, for tests: one set of operands per cycle, results of every unit beside each other.
module arithmetic_bench
  import fame_pkg::*;
#(
    parameter int Width  = 54,
    parameter int Stages = 4
) (
    input  logic              clk_i,
    // arithmetic, high, a (2), b (2), c (2), q, q_mul, mu, shift
    input  logic [11:0][63:0] x_i,
    // a_0 + b_0, a_0 - b_0, a_0 b_0, the same of tiles, the pair's results (2), those of lanes of tiles (2)
    output logic [ 7:0][63:0] x_o
);
  localparam int Latency = lane_latency(Stages);

  logic [11:0][63:0] x[Latency];
  logic [Width-1:0] r[8];
  logic [1:0][Width-1:0] lanes[2];

  assign x[0] = x_i;
  for (genvar k = 1; k < Latency; k++) begin : g_travel
    always_ff @(posedge clk_i) x[k] <= x[k-1];
  end

  mod_add #(
      .Width(Width)
  ) i_add (
      .clk_i,
      .subtract_i(1'b0),
      .a_i(x[0][2][Width-1:0]),
      .b_i(x[0][4][Width-1:0]),
      .q_i(x[1][8][Width-1:0]),
      .r_o(r[0])
  );
  mod_add #(
      .Width(Width)
  ) i_subtract (
      .clk_i,
      .subtract_i(1'b1),
      .a_i(x[0][2][Width-1:0]),
      .b_i(x[0][4][Width-1:0]),
      .q_i(x[1][8][Width-1:0]),
      .r_o(r[1])
  );
  for (genvar t = 0; t < 2; t++) begin : g_form
    mod_mul #(
        .Width (Width),
        .Stages(Stages),
        .Tiled (t)
    ) i_mul (
        .clk_i,
        .a_i(x[0][2][Width-1:0]),
        .b_i(x[0][4][Width-1:0]),
        .shift_i(x[Stages][11][5:0]),
        .high_i(x[Stages][1][0]),
        .mu_i(x[Stages+1][10][Width-1:0]),
        .q_mul_i(x[2*Stages+2][9][Width-1:0]),
        .q_twice_i(x[3*Stages+3][8][Width-1:0]),
        .q_once_i(x[3*Stages+4][8][Width-1:0]),
        .r_o(r[2+t])
    );
    lane_array #(
        .Dp(2),
        .Width(Width),
        .Stages(Stages),
        .Tiled(t)
    ) i_lanes (
        .clk_i,
        .arithmetic_i(arithmetic_e'(x[0][0][2:0])),
        .high_i(x[0][1][0]),
        .q_i(x[1][8][Width-1:0]),
        .q_mul_i(x[1][9][Width-1:0]),
        .mu_i(x[1][10][Width-1:0]),
        .shift_i(x[1][11][5:0]),
        .a_i({x[0][3][Width-1:0], x[0][2][Width-1:0]}),
        .b_i({x[0][5][Width-1:0], x[0][4][Width-1:0]}),
        .c_i({x[0][7][Width-1:0], x[0][6][Width-1:0]}),
        .r_o(lanes[t])
    );
    assign r[4+2*t] = lanes[t][0];
    assign r[5+2*t] = lanes[t][1];
  end
  for (genvar k = 0; k < 8; k++) begin : g_out
    assign x_o[k] = 64'(r[k]);
  end
endmodule
