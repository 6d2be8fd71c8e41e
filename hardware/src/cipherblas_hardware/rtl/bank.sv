// A bank of the scratchpad: one row is read and one written in each cycle, as block RAM and UltraRAM do at their full width.
// A row that is written can be read from the next cycle on.
module bank #(
    parameter int Dp = 8,
    parameter int Width = 54,
    parameter int Depth = 1024,
    parameter string Style = "block",  // or "ultra"
    localparam int RowBits = $clog2(Depth)
) (
    input  logic                          clk_i,
    input  logic                          read_i,
    input  logic [RowBits-1:0]            read_row_i,
    output logic [     Dp-1:0][Width-1:0] read_o,
    input  logic                          write_i,
    input  logic [RowBits-1:0]            write_row_i,
    input  logic [     Dp-1:0][Width-1:0] write_data_i
);
  (* ram_style = Style *) logic [Dp*Width-1:0] rows[Depth];

  always_ff @(posedge clk_i) begin
    if (read_i) read_o <= rows[read_row_i];
    if (write_i) rows[write_row_i] <= write_data_i;
  end
endmodule
