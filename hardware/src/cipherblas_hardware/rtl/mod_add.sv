// a + b mod q, or a - b mod q, of words below q: one per cycle, two cycles later. q_i comes with the second cycle.
//
// Both results need at most one correction by q, since 0 <= a + b < 2 q and -q < a - b < q. The sum and what the correction
// makes of it are both at hand in the second cycle, and the sign of one of them chooses.
module mod_add #(
    parameter int Width = 54
) (
    input  logic             clk_i,
    input  logic             subtract_i,
    input  logic [Width-1:0] a_i,
    input  logic [Width-1:0] b_i,
    input  logic [Width-1:0] q_i,
    output logic [Width-1:0] r_o
);
  // Two bits more than a word: a carry, and a sign.
  logic [Width+1:0] first;
  logic [Width+1:0] corrected;
  logic subtracted;
  logic take_corrected;

  assign corrected = subtracted ? first + {2'b0, q_i} : first - {2'b0, q_i};
  assign take_corrected = subtracted ? first[Width+1] : !corrected[Width+1];

  always_ff @(posedge clk_i) begin
    first <= subtract_i ? {2'b0, a_i} - {2'b0, b_i} : {2'b0, a_i} + {2'b0, b_i};
    subtracted <= subtract_i;
    r_o <= take_corrected ? corrected[Width-1:0] : first[Width-1:0];
  end
endmodule
