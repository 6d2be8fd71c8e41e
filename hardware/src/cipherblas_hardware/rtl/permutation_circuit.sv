// Operand a on its way to the lanes: rotations of position bits, then automorphisms in the network of lanes.
//
// Two forms. Without Buffered, rows are read or written in another order and neighbouring rows exchange halves (`corner`).
// Buffered: as printed in Fig. 4, rows in order and a limb in buffers (`temporal_network`).
module permutation_circuit
  import fame_pkg::*;
#(
    parameter int Dp = 8,
    parameter int Width = 54,
    parameter int LogR = 5,
    parameter bit Buffered = 0,
    localparam int Bits = $clog2(Dp)
) (
    input  logic                               clk_i,
    input  logic                               rst_ni,
    input  logic                               valid_i,
    input  permutation_e                       permutation_i,
    input  logic         [LogR-1:0]            row_i,
    input  logic         [Bits-1:0]            g_i,            // of the lanes; with the row
    input  logic         [Bits-1:0]            c_i,
    input  logic         [  Dp-1:0][Width-1:0] x_i,
    output logic         [  Dp-1:0][Width-1:0] x_o
);
  localparam int Latency = operand_latency(Dp, Buffered ? 1 << LogR : 0) - 2 - Bits;

  logic [Dp-1:0][Width-1:0] turned;
  logic [Bits-1:0] g[Latency];
  logic [Bits-1:0] c[Latency];

  if (Buffered) begin : g_buffered
    temporal_network #(
        .Dp(Dp),
        .Width(Width),
        .LogR(LogR)
    ) i_temporal (
        .clk_i,
        .rst_ni,
        .valid_i,
        .permutation_i,
        .row_i,
        .x_i,
        .x_o(turned)
    );
  end else begin : g_rows
    logic unused;
    assign unused = ^{rst_ni, valid_i, row_i};
    corner #(
        .Dp(Dp),
        .Width(Width)
    ) i_corner (
        .clk_i,
        .permutation_i,
        .second_i(row_i[0]),
        .x_i,
        .x_o(turned)
    );
  end
  always_ff @(posedge clk_i) begin
    g[0] <= g_i;
    c[0] <= c_i;
    for (int k = 1; k < Latency; k++) begin
      g[k] <= g[k-1];
      c[k] <= c[k-1];
    end
  end
  lane_network #(
      .Dp(Dp),
      .Width(Width)
  ) i_network (
      .clk_i,
      .g_i(g[Latency-1]),
      .c_i(c[Latency-1]),
      .x_i(turned),
      .x_o
  );
endmodule
