// Operand a on its way to the lanes: rotations of position bits in the corner, automorphisms in the network of lanes.
module permutation_circuit
  import fame_pkg::*;
#(
    parameter int Dp = 8,
    parameter int Width = 54,
    localparam int Bits = $clog2(Dp)
) (
    input  logic                               clk_i,
    input  permutation_e                       permutation_i,
    input  logic                               second_i,       // of a pair of rows
    input  logic         [Bits-1:0]            g_i,            // of the lanes; with the row
    input  logic         [Bits-1:0]            c_i,
    input  logic         [  Dp-1:0][Width-1:0] x_i,
    output logic         [  Dp-1:0][Width-1:0] x_o
);
  logic [Dp-1:0][Width-1:0] turned;
  logic [Bits-1:0] g[2];
  logic [Bits-1:0] c[2];

  corner #(
      .Dp(Dp),
      .Width(Width)
  ) i_corner (
      .clk_i,
      .permutation_i,
      .second_i,
      .x_i,
      .x_o(turned)
  );
  always_ff @(posedge clk_i) begin
    g[0] <= g_i;
    g[1] <= g[0];
    c[0] <= c_i;
    c[1] <= c[0];
  end
  lane_network #(
      .Dp(Dp),
      .Width(Width)
  ) i_network (
      .clk_i,
      .g_i(g[1]),
      .c_i(c[1]),
      .x_i(turned),
      .x_o
  );
endmodule
