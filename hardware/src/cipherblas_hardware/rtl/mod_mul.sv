// a * b mod q by Barrett for a, b < q and 2^(bits-1) < q < 2^bits: one product per cycle, 3 Stages + 5 cycles later.
//
// With t = a b, x = t >> bits < 2^Width and mu = floor(2^(bits + Width) / q) - 2^Width (the top bit of the reciprocal is
// implied), the estimate is e = x + (x mu >> Width) = floor(x (mu + 2^Width) / 2^Width). It is never above t / q, as x and
// the reciprocal are rounded down. It is less than 4 below: of x, at most 2^bits / q < 2 are lost, of the reciprocal
// x / 2^Width < 1, of the last shift less than 1. So d = t - e q lies in [0, 4 q), and its low Width + 2 bits are all of it.
//
// high_i: x itself comes out, for an entry of the table of moduli with q_mul = 0 and the largest q.
module mod_mul #(
    parameter int Width  = 54,
    parameter int Stages = 4,
    parameter bit Tiled  = 0
) (
    input  logic             clk_i,
    input  logic [Width-1:0] a_i,
    input  logic [Width-1:0] b_i,
    input  logic [      5:0] shift_i,    // bits: with t, Stages cycles after a_i
    input  logic             high_i,     // likewise
    input  logic [Width-1:0] mu_i,       // Stages + 1
    input  logic [Width-1:0] q_mul_i,    // 2 Stages + 2
    input  logic [Width-1:0] q_twice_i,  // 3 Stages + 3
    input  logic [Width-1:0] q_once_i,   // 3 Stages + 4
    output logic [Width-1:0] r_o
);
  localparam int Low = Width + 2;
  localparam int Waiting = 2 * Stages + 2;  // cycles from t to e q

  logic [2*Width-1:0] t;
  logic [Low-1:0] shifted;
  logic [2*Width-1:0] x_mu;
  logic [Low-1:0] e_q;
  logic [Low-1:0] low[Waiting];
  logic [Width-1:0] x[Stages+1];
  logic [Width-1:0] e;
  logic [Low-1:0] d;
  logic [Low-1:0] twice;
  logic [Low-1:0] d_less_twice;
  logic [Low-1:0] s;
  logic [Low-1:0] s_less_once;

  product #(
      .Width (Width),
      .Stages(Stages),
      .Tiled (Tiled)
  ) i_t (
      .clk_i,
      .a_i,
      .b_i,
      .p_o(t)
  );
  product #(
      .Width (Width),
      .Stages(Stages),
      .Tiled (Tiled)
  ) i_x_mu (
      .clk_i,
      .a_i(x[0]),
      .b_i(mu_i),
      .p_o(x_mu)
  );
  product #(
      .Width(Width),
      .OutWidth(Low),
      .Stages(Stages),
      .Tiled(Tiled)
  ) i_e_q (
      .clk_i,
      .a_i(e),
      .b_i(q_mul_i),
      .p_o(e_q)
  );

  assign shifted = Low'(t >> shift_i);
  always_ff @(posedge clk_i) begin
    x[0] <= shifted[Width-1:0];
    for (int i = 1; i <= Stages; i++) x[i] <= x[i-1];
    e <= x[Stages] + x_mu[2*Width-1:Width];
    low[0] <= high_i ? shifted : t[Low-1:0];
    for (int i = 1; i < Waiting; i++) low[i] <= low[i-1];
  end

  logic unused_low;
  assign unused_low = ^x_mu[Width-1:0];

  // Minus 2 q if that is not below zero, then minus q if that is not.
  assign twice = {1'b0, q_twice_i, 1'b0};
  assign d_less_twice = d - twice;
  assign s_less_once = s - {2'b0, q_once_i};
  always_ff @(posedge clk_i) begin
    d   <= low[Waiting-1] - e_q;
    s   <= d < twice ? d : d_less_twice;
    r_o <= s_less_once[Low-1] ? s[Width-1:0] : s_less_once[Width-1:0];
  end
endmodule
