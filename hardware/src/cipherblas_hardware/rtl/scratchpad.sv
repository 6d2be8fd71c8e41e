// Four banks: operands a, b and c are read from them, each from another one, and results are written. One cycle to the outputs,
// which are a choice of banks that the reader is to register.
module scratchpad
  import fame_pkg::*;
#(
    parameter int Dp = 8,
    parameter int Width = 54,
    parameter int BankRows = 1024,
    parameter string Style = "block"
) (
    input  logic                            clk_i,
    input  logic [        2:0]              read_i,        // operands a, b, c
    input  logic [        2:0][        1:0] read_bank_i,
    input  logic [        2:0][RowBits-1:0] read_row_i,
    output logic [     Dp-1:0][  Width-1:0] a_o,
    output logic [     Dp-1:0][  Width-1:0] b_o,
    output logic [     Dp-1:0][  Width-1:0] c_o,
    input  logic                            write_i,
    input  logic [        1:0]              write_bank_i,
    input  logic [RowBits-1:0]              write_row_i,
    input  logic [     Dp-1:0][  Width-1:0] write_data_i
);
  localparam int Used = $clog2(BankRows);

  logic [Dp-1:0][Width-1:0] read[Banks];
  logic [2:0][1:0] bank_of;

  for (genvar k = 0; k < Banks; k++) begin : g_bank
    logic [2:0] asked;
    logic [RowBits-1:0] row;
    for (genvar o = 0; o < 3; o++) begin : g_operand
      assign asked[o] = read_i[o] && read_bank_i[o] == 2'(k);
    end
    assign row = asked[0] ? read_row_i[0] : asked[1] ? read_row_i[1] : read_row_i[2];
    bank #(
        .Dp(Dp),
        .Width(Width),
        .Depth(BankRows),
        .Style(Style)
    ) i_bank (
        .clk_i,
        .read_i(|asked),
        .read_row_i(row[Used-1:0]),
        .read_o(read[k]),
        .write_i(write_i && write_bank_i == 2'(k)),
        .write_row_i(write_row_i[Used-1:0]),
        .write_data_i
    );
`ifndef SYNTHESIS
    always_ff @(posedge clk_i) begin
      assert ($onehot0(asked))
      else $error("Two operands are read from bank %0d in one cycle.", k);
      assert (!(|asked) || 32'(row) < BankRows)
      else $error("Row %0d of bank %0d is read, which has %0d.", row, k, BankRows);
      assert (!(write_i && write_bank_i == 2'(k)) || 32'(write_row_i) < BankRows)
      else $error("Row %0d of bank %0d is written, which has %0d.", write_row_i, k, BankRows);
    end
`endif
  end

  always_ff @(posedge clk_i) bank_of <= read_bank_i;
  assign a_o = read[bank_of[0]];
  assign b_o = read[bank_of[1]];
  assign c_o = read[bank_of[2]];
endmodule
