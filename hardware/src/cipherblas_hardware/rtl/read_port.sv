// A port that reads memory by AXI4, a burst for each row: Width / 2 beats of 2 Dp bits, 27 of 256 for 128 lanes of 54 bits. Rows lie
// a power of two apart, so that no burst crosses 4 KB.
//
// Two kinds of rows share a port: those that banks load (0) and those that stream to the lanes (1). A row is asked for only where its
// kind has room for all of its beats. So the port never makes memory wait, and rows of one kind never wait for those of the other,
// which may be waiting for them.
module read_port
  import fame_pkg::*;
#(
    parameter int Dp = 128,
    parameter int Width = 54,
    parameter int Ahead = 4,  // of each kind that are under way, a power of two
    localparam int Beats = Width / 2,
    localparam int Stride = $clog2(Dp / 4) + $clog2(Beats),  // log2 of the bytes from row to row
    localparam int RoomBits = $clog2(Ahead + 1)
) (
    input logic clk_i,
    input logic rst_ni,
    input logic [1:0] ask_i,  // for a row of each kind; one is taken in a cycle
    output logic [1:0] asked_o,
    input logic [1:0][AddressBits-1:0] number_i,  // of the row among those of this port
    output logic [1:0] valid_o,
    input logic [1:0] ready_i,
    output logic [1:0][Dp*Width-1:0] row_o,
    input logic port_clk_i,
    input logic port_rst_ni,
    output logic arvalid_o,
    input logic arready_i,
    output logic arid_o,
    output logic [AddressBits-1:0] araddr_o,
    output logic [7:0] arlen_o,
    output logic [2:0] arsize_o,
    output logic [1:0] arburst_o,
    input logic rvalid_i,
    output logic rready_o,
    input logic rid_i,
    input logic [2*Dp-1:0] rdata_i
);
  logic [1:0][RoomBits-1:0] under_way;
  logic [1:0] may;
  logic kind;
  logic command_ready;
  logic [AddressBits-1:0] number;
  logic [1:0] room;
  logic turn;  // the kind that was not asked for last

  for (genvar k = 0; k < 2; k++) begin : g_may
    assign may[k] = ask_i[k] && under_way[k] != RoomBits'(Ahead);
  end
  assign kind = (&may) ? turn : may[1];
  assign asked_o = {2{command_ready}} & may & {kind, !kind};

  async_fifo #(
      .Width(1 + AddressBits),
      .Depth(4 * Ahead)
  ) i_commands (
      .write_clk_i(clk_i),
      .write_rst_ni(rst_ni),
      .valid_i(|may),
      .ready_o(command_ready),
      .data_i({kind, number_i[kind]}),
      .read_clk_i(port_clk_i),
      .read_rst_ni(port_rst_ni),
      .valid_o(arvalid_o),
      .ready_i(arready_i),
      .data_o({arid_o, number})
  );
  assign araddr_o  = number << Stride;
  assign arlen_o   = 8'(Beats - 1);
  assign arsize_o  = 3'($clog2(Dp / 4));
  assign arburst_o = 2'b01;  // addresses go up
  assign rready_o  = 1'b1;

  for (genvar k = 0; k < 2; k++) begin : g_kind
    logic beat_valid;
    logic beat_ready;
    logic [2*Dp-1:0] beat;
    async_fifo #(
        .Width(2 * Dp),
        .Depth(Ahead << $clog2(Beats))
    ) i_beats (
        .write_clk_i(port_clk_i),
        .write_rst_ni(port_rst_ni),
        .valid_i(rvalid_i && rid_i == 1'(k)),
        .ready_o(room[k]),
        .data_i(rdata_i),
        .read_clk_i(clk_i),
        .read_rst_ni(rst_ni),
        .valid_o(beat_valid),
        .ready_i(beat_ready),
        .data_o(beat)
    );
    unpack #(
        .Dp(Dp),
        .Width(Width)
    ) i_unpack (
        .clk_i,
        .rst_ni,
        .valid_i(beat_valid),
        .ready_o(beat_ready),
        .beat_i (beat),
        .valid_o(valid_o[k]),
        .ready_i(ready_i[k]),
        .row_o  (row_o[k])
    );
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) under_way[k] <= '0;
      else under_way[k] <= under_way[k] + RoomBits'(asked_o[k]) - RoomBits'(valid_o[k] && ready_i[k]);
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) turn <= 1'b0;
    else if (|asked_o) turn <= asked_o[0];
  end

`ifndef SYNTHESIS
  always_ff @(posedge port_clk_i) begin
    assert (!rvalid_i || room[rid_i])
    else $error("A beat comes for which a port has no room.");
  end
`else
  logic unused;
  assign unused = ^room;
`endif
endmodule
