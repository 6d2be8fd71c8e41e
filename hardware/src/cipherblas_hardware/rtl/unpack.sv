// Beats of a port as rows: Width / 2 beats of 2 Dp bits are Dp words.
module unpack #(
    parameter int Dp = 128,
    parameter int Width = 54,
    localparam int Beats = Width / 2,
    localparam int Bits = $clog2(Beats + 1)
) (
    input  logic                clk_i,
    input  logic                rst_ni,
    input  logic                valid_i,
    output logic                ready_o,
    input  logic [    2*Dp-1:0] beat_i,
    output logic                valid_o,
    input  logic                ready_i,
    output logic [Dp*Width-1:0] row_o
);
  logic [Bits-1:0] have;  // beats of the row that is being collected

  assign valid_o = have == Bits'(Beats);
  assign ready_o = !valid_o || ready_i;
  always_ff @(posedge clk_i) if (valid_i && ready_o) row_o <= {beat_i, row_o[Dp*Width-1:2*Dp]};
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) have <= '0;
    else if (ready_o) have <= (valid_o ? '0 : have) + Bits'(valid_i);
  end
endmodule
