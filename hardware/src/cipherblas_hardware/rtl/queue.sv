// A queue of one clock: what is pushed first leaves first. A word can be taken two cycles after it was pushed, so that its memory may
// be one that registers what it reads.
module queue #(
    parameter int Width = 8,
    parameter int Depth = 4,  // a power of two
    localparam int Bits = $clog2(Depth)
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    input  logic             valid_i,
    output logic             ready_o,
    input  logic [Width-1:0] data_i,
    output logic             valid_o,
    input  logic             ready_i,
    output logic [Width-1:0] data_o
);
  logic [Width-1:0] words[Depth];
  logic [Bits:0] pushed;
  logic [Bits:0] pushed_before;  // a cycle ago: of these words data_o knows
  logic [Bits:0] taken;
  logic [Bits:0] taken_next;

  assign ready_o = (Bits + 1)'(pushed - taken) != (Bits + 1)'(Depth);
  assign valid_o = pushed_before != taken;
  assign taken_next = taken + (Bits + 1)'(valid_o && ready_i);

  always_ff @(posedge clk_i) begin
    if (valid_i && ready_o) words[pushed[Bits-1:0]] <= data_i;
    data_o <= words[taken_next[Bits-1:0]];
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      pushed <= '0;
      pushed_before <= '0;
      taken <= '0;
    end else begin
      pushed <= pushed + (Bits + 1)'(valid_i && ready_o);
      pushed_before <= pushed;
      taken <= taken_next;
    end
  end
endmodule
