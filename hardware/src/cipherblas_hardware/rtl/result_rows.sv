// Which row of its result a pass writes for its row number `row_i`, and so reads of operands b and c; and where the twiddle
// factors of that row lie.
//
// A row of butterflies takes half a row of factors. Their table has half a row for each of the stages whose period is at most
// that, then 2^s words for each later stage s, in order.
module result_rows
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
    input  logic         [     3:0] stage_i,
    output logic         [LogR-1:0] row_o,
    output logic         [  LogR:0] twiddle_row_o,
    output logic                    upper_half_o    // of that row
);
  localparam int HalfBits = Bits - 1;  // of the number of a pair of lanes

  logic [LogR+1:0] half;  // of the table, counted in half rows

  always_comb begin
    row_o = row_i;
    if (!Buffered && permutation_i == RotateRight) begin
      row_o = (row_i >> 1) | (LogR'(row_i[0]) << (log_r_i - 4'd1));  // 0, R/2, 1, R/2 + 1, …
    end
    if (stage_i < 4'(Bits)) begin
      half = (LogR + 2)'(stage_i);
    end else begin
      // Half rows of the stages before, and this row's place in the period of 2^(s - HalfBits) half rows.
      half = (LogR + 2)'(Bits - 2) + ((LogR + 2)'(1) << (stage_i - 4'(HalfBits)));
      half = half + ({2'b0, row_o} & (((LogR + 2)'(1) << (stage_i - 4'(HalfBits))) - (LogR + 2)'(1)));
    end
  end
  assign twiddle_row_o = half[LogR+1:1];
  assign upper_half_o  = half[0];
endmodule
