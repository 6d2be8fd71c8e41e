// One pass after the other, each after the cycles that it waits: which row of which instruction is issued in this cycle.
module sequencer
  import fame_pkg::*;
#(
    parameter int LogR = 8
) (
    input  logic                    clk_i,
    input  logic                    rst_ni,
    input  logic         [     3:0] log_r_i,        // of a limb's rows
    input  logic                    valid_i,
    output logic                    ready_o,
    input  instruction_t            instruction_i,
    output logic                    running_o,
    output logic                    issue_o,
    output logic         [LogR-1:0] row_o,
    output instruction_t            current_o
);
  logic [11:0] waiting;
  logic last;

  assign issue_o = running_o && waiting == '0;
  assign last = issue_o && 32'(row_o) == (32'd1 << log_r_i) - 32'd1;
  // The next instruction is taken with the last row of this one, so that rows follow each other without a gap.
  assign ready_o = !running_o || last;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      running_o <= 1'b0;
      row_o <= '0;
      waiting <= '0;
      current_o <= '0;
    end else if (ready_o) begin
      running_o <= valid_i;
      row_o <= '0;
      waiting <= instruction_i.waits;
      current_o <= instruction_i;
    end else if (waiting != '0) begin
      waiting <= waiting - 12'd1;
    end else begin
      row_o <= row_o + LogR'(1);
    end
  end
endmodule
