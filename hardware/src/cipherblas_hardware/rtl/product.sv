// The low OutWidth bits of the product of two unsigned words, Stages cycles later.
//
// Tiled: made of tiles of 26 x 17 bits, each of which is one DSP48E2 (it multiplies 27 x 18 signed bits). One or two bits that
// are left over at the top of a word are multiplied in LUTs; three and more take a tile of their own. So 54 x 54 bits, with
// 54 = 2 * 26 + 2 = 3 * 17 + 3, take 2 x 4 tiles, and the low 56 bits of such a product 5: those tiles whose lowest bit lies
// above them are left out. Without Tiled it is one `*`, which simulates faster; tests compare both.
module product #(
    parameter int Width = 54,
    parameter int OutWidth = 2 * Width,
    parameter int Stages = 4,
    parameter bit Tiled = 0
) (
    input  logic                clk_i,
    input  logic [   Width-1:0] a_i,
    input  logic [   Width-1:0] b_i,
    output logic [OutWidth-1:0] p_o
);
  if (!Tiled) begin : g_plain
    logic [OutWidth-1:0] p[Stages];
    always_ff @(posedge clk_i) begin
      p[0] <= OutWidth'(a_i) * OutWidth'(b_i);
      for (int k = 1; k < Stages; k++) p[k] <= p[k-1];
    end
    assign p_o = p[Stages-1];
  end else begin : g_tiled
    localparam int TileA = 26;
    localparam int TileB = 17;
    localparam int MostLeft = 2;  // bits that go to LUTs
    localparam int TilesA = Width % TileA <= MostLeft ? Width / TileA : Width / TileA + 1;
    localparam int TilesB = Width % TileB <= MostLeft ? Width / TileB : Width / TileB + 1;
    localparam int CoveredA = TilesA * TileA < Width ? TilesA * TileA : Width;
    localparam int CoveredB = TilesB * TileB < Width ? TilesB * TileB : Width;
    localparam int Parts = TilesA * TilesB + 2;

    logic [Width-1:0] a;
    logic [Width-1:0] b;
    logic [OutWidth-1:0] part[Parts];
    logic [OutWidth-1:0] sum[Stages-2];

    for (genvar i = 0; i < TilesA; i++) begin : g_a
      for (genvar j = 0; j < TilesB; j++) begin : g_b
        localparam int WidthA = (i + 1) * TileA <= CoveredA ? TileA : CoveredA - i * TileA;
        localparam int WidthB = (j + 1) * TileB <= CoveredB ? TileB : CoveredB - j * TileB;
        if (i * TileA + j * TileB < OutWidth) begin : g_tile
          logic [WidthA-1:0] tile_a;
          logic [WidthB-1:0] tile_b;
          (* use_dsp = "yes" *) logic [WidthA+WidthB-1:0] p;
          always_ff @(posedge clk_i) begin
            tile_a <= a_i[i*TileA+:WidthA];
            tile_b <= b_i[j*TileB+:WidthB];
            p <= tile_a * tile_b;
          end
          assign part[i*TilesB+j] = OutWidth'(p) << (i * TileA + j * TileB);
        end else begin : g_none
          assign part[i*TilesB+j] = '0;
        end
      end
    end

    // What is left over of a, times b; and of b, times the rest of a.
    always_ff @(posedge clk_i) begin
      logic [OutWidth-1:0] s;
      a <= a_i;
      b <= b_i;
      s = '0;
      for (int k = CoveredA; k < Width; k++) if (a[k]) s = s + (OutWidth'(b) << k);
      part[Parts-2] <= s;
      s = '0;
      for (int k = CoveredB; k < Width; k++) if (b[k]) s = s + (OutWidth'(a[CoveredA-1:0]) << k);
      part[Parts-1] <= s;
    end

    always_ff @(posedge clk_i) begin
      logic [OutWidth-1:0] s;
      s = '0;
      for (int k = 0; k < Parts; k++) s = s + part[k];
      sum[0] <= s;
      for (int k = 1; k < Stages - 2; k++) sum[k] <= sum[k-1];
    end
    assign p_o = sum[Stages-3];
  end
endmodule
