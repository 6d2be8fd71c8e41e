// Rows as beats of a port, the opposite of `unpack`.
module pack #(
    parameter int Dp = 128,
    parameter int Width = 54,
    localparam int Beats = Width / 2,
    localparam int Bits = $clog2(Beats + 1)
) (
    input  logic                clk_i,
    input  logic                rst_ni,
    input  logic                valid_i,
    output logic                ready_o,
    input  logic [Dp*Width-1:0] row_i,
    output logic                valid_o,
    input  logic                ready_i,
    output logic [    2*Dp-1:0] beat_o
);
  logic [Dp*Width-1:0] row;
  logic [Bits-1:0] left;  // beats of it

  assign valid_o = left != '0;
  assign ready_o = !valid_o || (ready_i && left == Bits'(1));
  assign beat_o  = row[2*Dp-1:0];
  always_ff @(posedge clk_i) begin
    if (ready_o) row <= row_i;
    else if (ready_i) row <= {(2 * Dp)'(0), row[Dp*Width-1:2*Dp]};
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) left <= '0;
    else if (ready_o) left <= valid_i ? Bits'(Beats) : '0;
    else if (ready_i) left <= left - Bits'(1);
  end
endmodule
