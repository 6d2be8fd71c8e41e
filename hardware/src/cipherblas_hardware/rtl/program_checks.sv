// What a program must keep, watched in simulation: rows are read after they are written, streams have what is taken, and
// results are residues.
module program_checks
  import fame_pkg::*;
#(
    parameter int Dp = 8,
    parameter int LogN = 12,
    parameter int Width = 54,
    parameter int Stages = 4,
    parameter int BankRows = 4096,
    parameter bit Buffered = 0,
    localparam int LogR = LogN - $clog2(Dp)
) (
    input logic                                clk_i,
    input logic                                rst_ni,
    input logic         [      3:0]            log_r_i,
    input logic                                issue_i,
    input logic         [ LogR-1:0]            row_i,
    input instruction_t                        current_i,
    input logic         [   LogN:0]            galois_i,
    input logic                                done_i,
    input logic         [Width-1:0]            q_i,             // of the operands of the cycle before
    input logic         [   Dp-1:0][Width-1:0] result_i,
    input logic                                stream_ready_i,
    input logic                                stream_valid_i
);
  localparam int ToLanes = operand_latency(Dp, Buffered ? 1 << LogR : 0);
  localparam int ToBank = ToLanes + lane_latency(Stages);
  localparam int Skew = ToLanes - 2;
  localparam int LaneBits = $clog2(Dp);

  // The first cycle in which a row can be read; a row that nothing has written, never. What fills banks from outside sets it too.
  logic [31:0] readable[Banks][BankRows];
  logic [31:0] cycle;
  logic [RowBits-1:0] a_row;
  logic [RowBits-1:0] b_row;
  logic [RowBits-1:0] c_row;
  logic [RowBits-1:0] d_row;
  logic [Width-1:0] q[lane_latency(Stages)];
  logic [LogR-1:0] a_offset;
  logic [LogR-1:0] out_offset;
  logic [LogR:0] twiddle_offset;
  logic [LaneBits-1:0] unused_g;
  logic [LaneBits-1:0] unused_c;
  logic unused_half;

  operand_rows #(
      .Dp(Dp),
      .LogN(LogN),
      .Buffered(Buffered)
  ) i_operand_rows (
      .log_r_i,
      .row_i,
      .permutation_i(current_i.permutation),
      .galois_i,
      .row_o(a_offset),
      .g_o(unused_g),
      .c_o(unused_c)
  );
  result_rows #(
      .Dp(Dp),
      .LogN(LogN),
      .Buffered(Buffered)
  ) i_result_rows (
      .log_r_i,
      .row_i,
      .permutation_i(current_i.permutation),
      .stage_i(current_i.stage),
      .row_o(out_offset),
      .twiddle_row_o(twiddle_offset),
      .upper_half_o(unused_half)
  );
  assign a_row = current_i.a_row + RowBits'(a_offset);
  assign b_row = current_i.b_row +
      (current_i.factors == Twiddles ? RowBits'(twiddle_offset) : RowBits'(out_offset));
  assign c_row = current_i.c_row + RowBits'(out_offset);
  assign d_row = current_i.d_row + RowBits'(out_offset);

  function automatic void check(string operand, logic [1:0] bank, logic [RowBits-1:0] row, logic [31:0] at);
    assert (readable[bank][row[$clog2(BankRows)-1:0]] <= at)
    else $error("Operand %s is read from row %0d of bank %0d before it is written.", operand, row, bank);
  endfunction

  initial for (int k = 0; k < Banks; k++) for (int i = 0; i < BankRows; i++) readable[k][i] = '1;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      cycle <= '0;
    end else begin
      cycle <= cycle + 32'd1;
      if (issue_i) begin
        check("a", current_i.a_bank, a_row, cycle);
        if (current_i.factors inside {Rows, Twiddles}) check("b", current_i.b_bank, b_row, cycle + Skew);
        if (takes_c(current_i.arithmetic) && !current_i.constant) begin
          check("c", current_i.c_bank, c_row, cycle + Skew);
        end
        readable[current_i.d_bank][d_row[$clog2(BankRows)-1:0]] <= cycle + ToBank + 1;
      end
    end
  end

  assign q[0] = q_i;
  always_ff @(posedge clk_i) begin
    for (int k = 1; k < lane_latency(Stages); k++) q[k] <= q[k-1];
    for (int k = 0; k < Dp; k++) begin
      assert (!done_i || result_i[k] < q[lane_latency(Stages)-1])
      else $error("The result of lane %0d is no residue.", k);
    end
    assert (!stream_ready_i || stream_valid_i)
    else $error("A pass takes a row of the stream, which has none.");
  end
endmodule
