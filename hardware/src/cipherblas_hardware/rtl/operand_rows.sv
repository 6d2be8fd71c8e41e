// Which row of operand a a pass reads for its row number `row_i`, and what the network of lanes does to it.
//
// With evaluations in bit-reversed order, the automorphism by g takes the row whose number is, in reverse, that of
// g reverse(row) + (g - 1) / 2 mod R, the same for all lanes; the carry out of that sum is the offset c of lanes.
module operand_rows
  import fame_pkg::*;
#(
    parameter int Dp = 8,
    parameter int LogN = 12,
    parameter bit Buffered = 0,  // rotations leave the order of rows as it is
    localparam int Bits = $clog2(Dp),
    localparam int LogR = LogN - Bits
) (
    input  logic         [     3:0] log_r_i,        // of a limb's rows; LogR at most
    input  logic         [LogR-1:0] row_i,
    input  permutation_e            permutation_i,
    input  logic         [  LogN:0] galois_i,
    output logic         [LogR-1:0] row_o,
    output logic         [Bits-1:0] g_o,
    output logic         [Bits-1:0] c_o
);
  function automatic logic [LogR-1:0] reversed(logic [LogR-1:0] x);
    for (int k = 0; k < LogR; k++) reversed[k] = x[LogR-1-k];
    return reversed >> (4'(LogR) - log_r_i);
  endfunction

  logic [LogN-1:0] source;
  logic [LogR-1:0] mask;
  logic [LogR-1:0] reverse_row;
  logic [LogR-1:0] in_turns;  // 0, R/2, 1, R/2 + 1, …

  assign reverse_row = reversed(row_i);
  assign in_turns = (row_i >> 1) | (LogR'(row_i[0]) << (log_r_i - 4'd1));
  assign mask = LogR'((32'd1 << log_r_i) - 32'd1);
  always_comb begin
    // Adders, since a `*` would take a DSP slice.
    source = galois_i[LogN:1];
    for (int k = 0; k < LogR; k++) if (reverse_row[k]) source = source + (galois_i[LogN-1:0] << k);
    unique case (permutation_i)
      RotateLeft:   row_o = Buffered ? row_i : in_turns;
      Automorphism: row_o = reversed(source[LogR-1:0] & mask);
      default:      row_o = row_i;
    endcase
    g_o = permutation_i == Automorphism ? galois_i[Bits-1:0] : Bits'(1);
    c_o = permutation_i == Automorphism ? Bits'(source >> log_r_i) : '0;
  end
endmodule
