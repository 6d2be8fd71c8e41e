// A port that writes memory by AXI4, a burst for each row; see `read_port`.
module write_port
  import fame_pkg::*;
#(
    parameter int Dp = 128,
    parameter int Width = 54,
    localparam int Beats = Width / 2,
    localparam int Stride = $clog2(Dp / 4) + $clog2(Beats),
    localparam int BeatBits = $clog2(Beats)
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    input  logic                   valid_i,
    output logic                   ready_o,
    input  logic [AddressBits-1:0] number_i,     // of the row among those of this port
    input  logic [   Dp*Width-1:0] row_i,
    output logic                   idle_o,       // memory has answered for all rows
    input  logic                   port_clk_i,
    input  logic                   port_rst_ni,
    output logic                   awvalid_o,
    input  logic                   awready_i,
    output logic [AddressBits-1:0] awaddr_o,
    output logic [            7:0] awlen_o,
    output logic [            2:0] awsize_o,
    output logic [            1:0] awburst_o,
    output logic                   wvalid_o,
    input  logic                   wready_i,
    output logic                   wlast_o,
    output logic [       2*Dp-1:0] wdata_o,
    input  logic                   bvalid_i,
    output logic                   bready_o
);
  localparam int CountBits = 6;  // of rows that memory has not answered for; the FIFOs have room for fewer

  logic command_ready;
  logic pack_ready;
  logic beat_valid;
  logic beat_ready;
  logic answered;
  logic unused;
  logic [2*Dp-1:0] beat;
  logic [AddressBits-1:0] number;
  logic [BeatBits-1:0] place;  // of the beat in its row
  logic [CountBits-1:0] open;

  assign ready_o = command_ready && pack_ready && open != '1;
  async_fifo #(
      .Width(AddressBits),
      .Depth(4)
  ) i_commands (
      .write_clk_i(clk_i),
      .write_rst_ni(rst_ni),
      .valid_i(valid_i && ready_o),
      .ready_o(command_ready),
      .data_i(number_i),
      .read_clk_i(port_clk_i),
      .read_rst_ni(port_rst_ni),
      .valid_o(awvalid_o),
      .ready_i(awready_i),
      .data_o(number)
  );
  assign awaddr_o  = number << Stride;
  assign awlen_o   = 8'(Beats - 1);
  assign awsize_o  = 3'($clog2(Dp / 4));
  assign awburst_o = 2'b01;
  pack #(
      .Dp(Dp),
      .Width(Width)
  ) i_pack (
      .clk_i,
      .rst_ni,
      .valid_i(valid_i && command_ready && open != '1),
      .ready_o(pack_ready),
      .row_i,
      .valid_o(beat_valid),
      .ready_i(beat_ready),
      .beat_o (beat)
  );
  async_fifo #(
      .Width(2 * Dp),
      .Depth(2 << $clog2(Beats))
  ) i_beats (
      .write_clk_i(clk_i),
      .write_rst_ni(rst_ni),
      .valid_i(beat_valid),
      .ready_o(beat_ready),
      .data_i(beat),
      .read_clk_i(port_clk_i),
      .read_rst_ni(port_rst_ni),
      .valid_o(wvalid_o),
      .ready_i(wready_i),
      .data_o(wdata_o)
  );
  assign wlast_o = place == BeatBits'(Beats - 1);
  always_ff @(posedge port_clk_i or negedge port_rst_ni) begin
    if (!port_rst_ni) place <= '0;
    else if (wvalid_o && wready_i) place <= wlast_o ? '0 : place + BeatBits'(1);
  end
  async_fifo #(
      .Width(1),
      .Depth(4)
  ) i_answers (
      .write_clk_i(port_clk_i),
      .write_rst_ni(port_rst_ni),
      .valid_i(bvalid_i),
      .ready_o(bready_o),
      .data_i(1'b1),
      .read_clk_i(clk_i),
      .read_rst_ni(rst_ni),
      .valid_o(answered),
      .ready_i(1'b1),
      .data_o(unused)
  );
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) open <= '0;
    else open <= open + CountBits'(valid_i && ready_o) - CountBits'(answered);
  end
  assign idle_o = open == '0;
endmodule
