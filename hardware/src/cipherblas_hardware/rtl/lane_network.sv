// The affine permutations of lanes that automorphisms need: output lane d takes lane g d + c mod Dp, lanes numbered by their
// bits in reverse. One stage of 2 x 2 switches for each bit, least significant first, one cycle each.
//
// Before stage j every word's position agrees with that of its result in the j lower bits. There bit j of the source of lane
// d is bit j of g v + c, v being the lower bits of d and d's own bit j, for g is odd: so the switch of both lanes whose lower
// bits are v crosses where bit j of g v + c is set. 2^j controls serve stage j.
module lane_network #(
    parameter int Dp = 8,
    parameter int Width = 54,
    localparam int Bits = $clog2(Dp)
) (
    input  logic                       clk_i,
    input  logic [Bits-1:0]            g_i,    // 1, and c 0: straight
    input  logic [Bits-1:0]            c_i,
    input  logic [  Dp-1:0][Width-1:0] x_i,
    output logic [  Dp-1:0][Width-1:0] x_o
);
  // The lower j bits of a lane's number: its upper physical ones, reversed.
  function automatic int lower_bits(int lane, int j);
    lower_bits = 0;
    for (int b = 0; b < j; b++) lower_bits |= ((lane >> (Bits - 1 - b)) & 1) << b;
  endfunction

  logic [Dp-1:0][Width-1:0] x[Bits+1];
  logic [Bits-1:0] g[Bits];
  logic [Bits-1:0] c[Bits];

  assign x[0] = x_i;
  assign g[0] = g_i;
  assign c[0] = c_i;
  for (genvar j = 0; j < Bits; j++) begin : g_stage
    localparam int Distance = Dp >> (j + 1);  // of physical lanes that differ in bit j
    logic [(1<<j)-1:0] swap;

    always_comb begin
      for (int v = 0; v < 1 << j; v++) begin
        logic [Bits-1:0] source;
        source  = Bits'(g[j] * Bits'(v)) + c[j];
        swap[v] = source[j];
      end
    end
    for (genvar p = 0; p < Dp; p++) begin : g_lane
      localparam int V = lower_bits(p, j);
      always_ff @(posedge clk_i) x[j+1][p] <= swap[V] ? x[j][p^Distance] : x[j][p];
    end
    if (j + 1 < Bits) begin : g_travel
      always_ff @(posedge clk_i) begin
        g[j+1] <= g[j];
        c[j+1] <= c[j];
      end
    end
  end
  assign x_o = x[Bits];
endmodule
