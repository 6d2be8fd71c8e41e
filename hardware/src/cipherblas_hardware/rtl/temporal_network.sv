// One rotation of the bits of all positions in a limb as Fig. 4 of the paper has it: switches, a buffer for each lane, switches.
// Rows come in order and leave in order, R / 2 + 4 cycles later.
//
// Left: word i goes to rotl(i), so the words of rows q and q + R/2 make rows 2 q and 2 q + 1. The upper half of the limb swaps
// the halves of its rows on the way in; so the two halves of an output row lie in buffers of either half, at addresses q and
// q + R/2. Odd rows swap their halves on the way out, and wires shuffle. Right is the mirror image. Of each network of
// switches a rotation takes the top stage alone; the one behind the buffers is the network of lanes, which automorphisms take.
//
// Output row r takes rows up to R/2 + r/2 (left), or 2 r + 1 and R - 1 (right), which have come R/2 cycles after row r did.
// A limb is read until 3 R/2 after its first row came, when the next but one has not begun: two limbs in the buffers do.
module temporal_network
  import fame_pkg::*;
#(
    parameter int Dp = 8,
    parameter int Width = 54,
    parameter int LogR = 5
) (
    input  logic                               clk_i,
    input  logic                               rst_ni,
    input  logic                               valid_i,
    input  permutation_e                       permutation_i,
    input  logic         [LogR-1:0]            row_i,
    input  logic         [  Dp-1:0][Width-1:0] x_i,
    output logic         [  Dp-1:0][Width-1:0] x_o
);
  localparam int Half = Dp / 2;
  localparam int Waiting = (1 << LogR) / 2 + 2;  // from a row to the reading of the row of its number

  typedef struct packed {
    logic limb;  // which of the two in the buffers
    permutation_e permutation;
    logic [LogR-1:0] row;
  } place_t;

  logic limb;
  logic valid;
  place_t travelling[Waiting+2];
  place_t entered;
  place_t leaving;
  place_t left;
  logic [Dp-1:0][Width-1:0] ordered;
  logic [Dp-1:0][Width-1:0] entering;
  logic [Dp-1:0][Width-1:0] read;
  logic [Dp-1:0][Width-1:0] swapped;

  assign travelling[0] = '{limb: limb, permutation: permutation_i, row: row_i};
  assign entered = travelling[1];
  assign leaving = travelling[Waiting];
  assign left = travelling[Waiting+1];
  always_ff @(posedge clk_i) for (int k = 1; k < Waiting + 2; k++) travelling[k] <= travelling[k-1];
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      limb  <= 1'b0;
      valid <= 1'b0;
    end else begin
      if (valid_i && row_i == '1) limb <= !limb;
      valid <= valid_i;
    end
  end

  // In: the even words of a row before the odd ones (right), and halves in turns.
  logic swap_in;
  always_comb begin
    unique case (permutation_i)
      RotateLeft:  swap_in = row_i[LogR-1];
      RotateRight: swap_in = row_i[0];
      default:     swap_in = 1'b0;
    endcase
    for (int k = 0; k < Dp; k++) begin
      ordered[k] = permutation_i == RotateRight ? x_i[2*(k%Half)+k/Half] : x_i[k];
    end
  end
  always_ff @(posedge clk_i) begin
    for (int k = 0; k < Dp; k++) entering[k] <= swap_in ? ordered[k^Half] : ordered[k];
  end

  // The buffers, read at one of two addresses each.
  logic swap_out;  // of the row that is read
  logic [LogR-1:0] address[2];
  assign swap_out = leaving.permutation == RotateLeft ? leaving.row[0] : leaving.row[LogR-1];
  always_comb begin
    for (int upper = 0; upper < 2; upper++) begin
      unique case (leaving.permutation)
        RotateLeft:  address[upper] = {upper[0] ^ swap_out, leaving.row[LogR-1:1]};
        RotateRight: address[upper] = {leaving.row[LogR-2:0], upper[0] ^ swap_out};
        default:     address[upper] = leaving.row;
      endcase
    end
  end
  for (genvar k = 0; k < Dp; k++) begin : g_buffer
    (* ram_style = "block" *) logic [Width-1:0] words[2<<LogR];
    always_ff @(posedge clk_i) begin
      if (valid) words[{entered.limb, entered.row}] <= entering[k];
      read[k] <= words[{leaving.limb, address[k/Half]}];
    end
  end

  // Out: halves in turns, and words of both in turns (left).
  logic swap_left;
  always_comb begin
    unique case (left.permutation)
      RotateLeft:  swap_left = left.row[0];
      RotateRight: swap_left = left.row[LogR-1];
      default:     swap_left = 1'b0;
    endcase
    for (int k = 0; k < Dp; k++) swapped[k] = swap_left ? read[k^Half] : read[k];
  end
  always_ff @(posedge clk_i) begin
    for (int k = 0; k < Dp; k++) begin
      x_o[k] <= left.permutation == RotateLeft ? swapped[k/2+(k%2)*Half] : swapped[k];
    end
  end
endmodule
