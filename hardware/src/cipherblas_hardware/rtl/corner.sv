// One rotation of the bits of all positions in a limb, two cycles later: the part of it within two neighbouring rows.
//
// Left: rows come in the order 0, R/2, 1, R/2 + 1, …, two of them holding the words whose numbers differ in their top bit
// alone. That bit becomes the lowest one: words of both rows in turns, first those of their lower halves. Right: rows come in
// order, and the even words of a pair of rows make the first of the two rows that leave, the odd ones the second; they go to
// rows 0, R/2, 1, R/2 + 1, …
module corner
  import fame_pkg::*;
#(
    parameter int Dp = 8,
    parameter int Width = 54
) (
    input  logic                             clk_i,
    input  permutation_e                     permutation_i,
    input  logic                             second_i,       // of a pair of rows
    input  logic         [Dp-1:0][Width-1:0] x_i,
    output logic         [Dp-1:0][Width-1:0] x_o
);
  localparam int Half = Dp / 2;

  logic [Dp-1:0][Width-1:0] previous;  // the row that came a cycle ago
  logic [Dp-1:0][Width-1:0] kept;  // the second row of the result, of the pair that ends with `previous`
  permutation_e permutation;
  logic second;

  always_ff @(posedge clk_i) begin
    previous <= x_i;
    permutation <= permutation_i;
    second <= second_i;
    for (int k = 0; k < Half; k++) begin
      if (permutation_i == RotateLeft) begin
        kept[2*k]   <= previous[Half+k];
        kept[2*k+1] <= x_i[Half+k];
      end else begin
        kept[k] <= previous[2*k+1];
        kept[Half+k] <= x_i[2*k+1];
      end
    end
    if (permutation inside {RotateLeft, RotateRight}) begin
      if (second) begin
        x_o <= kept;
      end else begin
        for (int k = 0; k < Half; k++) begin
          if (permutation == RotateLeft) begin
            x_o[2*k]   <= previous[k];
            x_o[2*k+1] <= x_i[k];
          end else begin
            x_o[k] <= previous[2*k];
            x_o[Half+k] <= x_i[2*k];
          end
        end
      end
    end else begin
      x_o <= previous;
    end
  end
endmodule
