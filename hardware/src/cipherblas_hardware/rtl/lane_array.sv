// All lanes of an element: rows of operands in, rows of results out. What a row is told travels beside it.
module lane_array
  import fame_pkg::*;
#(
    parameter int Dp = 8,
    parameter int Width = 54,
    parameter int Stages = 4,
    parameter bit Tiled = 0
) (
    input  logic                               clk_i,
    input  arithmetic_e                        arithmetic_i,  // with the operands
    input  logic                               high_i,
    input  logic        [Width-1:0]            q_i,           // the entry of the modulus, a cycle later
    input  logic        [Width-1:0]            q_mul_i,
    input  logic        [Width-1:0]            mu_i,
    input  logic        [      5:0]            shift_i,
    input  logic        [   Dp-1:0][Width-1:0] a_i,
    input  logic        [   Dp-1:0][Width-1:0] b_i,
    input  logic        [   Dp-1:0][Width-1:0] c_i,
    output logic        [   Dp-1:0][Width-1:0] r_o
);
  localparam int Latency = lane_latency(Stages);

  // Entry k is what holds for the row whose operands came k cycles ago.
  arithmetic_e arithmetic[Latency];
  logic high[Latency];
  logic [Width-1:0] q[Latency];
  logic [Width-1:0] q_mul[Latency];
  logic [Width-1:0] mu[Latency];
  logic [5:0] shift[Latency];

  assign arithmetic[0] = arithmetic_i;
  assign high[0] = high_i;
  always_comb begin
    q[0] = '0;  // the table's answer is a cycle behind the operands
    q_mul[0] = '0;
    mu[0] = '0;
    shift[0] = '0;
    q[1] = q_i;
    q_mul[1] = q_mul_i;
    mu[1] = mu_i;
    shift[1] = shift_i;
  end
  for (genvar k = 1; k < Latency; k++) begin : g_travel
    always_ff @(posedge clk_i) begin
      arithmetic[k] <= arithmetic[k-1];
      high[k] <= high[k-1];
    end
    if (k > 1) begin : g_modulus
      always_ff @(posedge clk_i) begin
        q[k] <= q[k-1];
        q_mul[k] <= q_mul[k-1];
        mu[k] <= mu[k-1];
        shift[k] <= shift[k-1];
      end
    end
  end

  for (genvar k = 0; k < Dp / 2; k++) begin : g_pair
    lane_pair #(
        .Width (Width),
        .Stages(Stages),
        .Tiled (Tiled)
    ) i_pair (
        .clk_i,
        .first_i(arithmetic[0]),
        .second_i(arithmetic[2]),
        .third_i(arithmetic[3*Stages+7]),
        .q_first_i(q[1]),
        .shift_i(shift[Stages+2]),
        .high_i(high[Stages+2]),
        .mu_i(mu[Stages+3]),
        .q_mul_i(q_mul[2*Stages+4]),
        .q_twice_i(q[3*Stages+5]),
        .q_once_i(q[3*Stages+6]),
        .q_third_i(q[3*Stages+8]),
        .a_i(a_i[2*k+:2]),
        .b_i(b_i[2*k+:2]),
        .c_i(c_i[2*k+:2]),
        .r_o(r_o[2*k+:2])
    );
  end
endmodule
