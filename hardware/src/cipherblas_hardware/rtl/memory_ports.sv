// The memory of an element: rows by number, row r at port r mod Ports. Two kinds of rows are read, in the order in which they are
// asked for: those that banks load (0) and those that stream to the lanes (1). Rows are written in any order.
//
// A request is a first row and how many follow; rows are asked for ahead, as far as ports have room.
module memory_ports
  import fame_pkg::*;
#(
    parameter int Dp = 128,
    parameter int Width = 54,
    parameter int Ports = 32,  // a power of two, at least two
    parameter int Ahead = 4,  // of each kind that are under way at a port, a power of two
    localparam int PortBits = $clog2(Ports)
) (
    input  logic                                    clk_i,
    input  logic                                    rst_ni,
    input  logic [            1:0]                  request_valid_i,
    output logic [            1:0]                  request_ready_o,
    input  logic [            1:0][AddressBits-1:0] request_first_i,
    input  logic [            1:0][AddressBits-1:0] request_rows_i,   // at least one
    output logic [            1:0]                  row_valid_o,
    input  logic [            1:0]                  row_ready_i,
    output logic [            1:0][   Dp*Width-1:0] row_o,
    input  logic                                    write_valid_i,
    output logic                                    write_ready_o,
    input  logic [AddressBits-1:0]                  write_number_i,
    input  logic [   Dp*Width-1:0]                  write_row_i,
    output logic                                    written_o,        // memory has answered for all rows
    // AXI4, of a clock of its own; what is constant is of each port the same
    input  logic                                    port_clk_i,
    input  logic                                    port_rst_ni,
    output logic [      Ports-1:0]                  arvalid_o,
    input  logic [      Ports-1:0]                  arready_i,
    output logic [      Ports-1:0]                  arid_o,
    output logic [      Ports-1:0][AddressBits-1:0] araddr_o,
    output logic [      Ports-1:0][            7:0] arlen_o,
    output logic [      Ports-1:0][            2:0] arsize_o,
    output logic [      Ports-1:0][            1:0] arburst_o,
    input  logic [      Ports-1:0]                  rvalid_i,
    output logic [      Ports-1:0]                  rready_o,
    input  logic [      Ports-1:0]                  rid_i,
    input  logic [      Ports-1:0][       2*Dp-1:0] rdata_i,
    output logic [      Ports-1:0]                  awvalid_o,
    input  logic [      Ports-1:0]                  awready_i,
    output logic [      Ports-1:0][AddressBits-1:0] awaddr_o,
    output logic [      Ports-1:0][            7:0] awlen_o,
    output logic [      Ports-1:0][            2:0] awsize_o,
    output logic [      Ports-1:0][            1:0] awburst_o,
    output logic [      Ports-1:0]                  wvalid_o,
    input  logic [      Ports-1:0]                  wready_i,
    output logic [      Ports-1:0]                  wlast_o,
    output logic [      Ports-1:0][       2*Dp-1:0] wdata_o,
    input  logic [      Ports-1:0]                  bvalid_i,
    output logic [      Ports-1:0]                  bready_o
);
  logic [Ports-1:0][1:0] ask;
  logic [Ports-1:0][1:0] asked;
  logic [Ports-1:0][1:0] valid;
  logic [Ports-1:0][1:0] ready;
  logic [Ports-1:0][1:0][Dp*Width-1:0] row;
  logic [1:0][AddressBits-1:0] number;  // of the row that is asked for next
  logic [Ports-1:0] write_ready;
  logic [Ports-1:0] idle;

  for (genvar k = 0; k < 2; k++) begin : g_kind
    logic [AddressBits-1:0] left;  // rows of the request that are to be asked for
    logic [AddressBits-1:0] coming;  // of the one whose rows come
    logic [PortBits-1:0] from;  // the port of the next row that comes
    logic busy;
    logic goes;
    logic leaves;
    logic follows_ready;
    logic follows;
    logic [PortBits+AddressBits-1:0] next;

    // The order in which rows come is that of requests, which are kept until their rows have come.
    assign busy = left != '0;
    assign goes = busy && asked[number[k][PortBits-1:0]][k];
    assign request_ready_o[k] = !busy && follows_ready;
    queue #(
        .Width(PortBits + AddressBits),
        .Depth(4)
    ) i_requests (
        .clk_i,
        .rst_ni,
        .valid_i(request_valid_i[k] && request_ready_o[k]),
        .ready_o(follows_ready),
        .data_i ({request_first_i[k][PortBits-1:0], request_rows_i[k]}),
        .valid_o(follows),
        .ready_i(coming == '0),
        .data_o (next)
    );
    assign row_valid_o[k] = coming != '0 && valid[from][k];
    assign row_o[k] = row[from][k];
    assign leaves = row_valid_o[k] && row_ready_i[k];
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        left <= '0;
        number[k] <= '0;
        coming <= '0;
        from <= '0;
      end else begin
        if (request_valid_i[k] && request_ready_o[k]) begin
          left <= request_rows_i[k];
          number[k] <= request_first_i[k];
        end else if (goes) begin
          left <= left - AddressBits'(1);
          number[k] <= number[k] + AddressBits'(1);
        end
        if (coming == '0) begin
          if (follows) {from, coming} <= next;
        end else if (leaves) begin
          coming <= coming - AddressBits'(1);
          from   <= from + PortBits'(1);
        end
      end
    end
    for (genvar p = 0; p < Ports; p++) begin : g_at_port
      assign ask[p][k]   = busy && number[k][PortBits-1:0] == PortBits'(p);
      assign ready[p][k] = leaves && from == PortBits'(p);
    end
  end

  for (genvar p = 0; p < Ports; p++) begin : g_port
    read_port #(
        .Dp(Dp),
        .Width(Width),
        .Ahead(Ahead)
    ) i_read (
        .clk_i,
        .rst_ni,
        .ask_i(ask[p]),
        .asked_o(asked[p]),
        .number_i({number[1] >> PortBits, number[0] >> PortBits}),
        .valid_o(valid[p]),
        .ready_i(ready[p]),
        .row_o(row[p]),
        .port_clk_i,
        .port_rst_ni,
        .arvalid_o(arvalid_o[p]),
        .arready_i(arready_i[p]),
        .arid_o(arid_o[p]),
        .araddr_o(araddr_o[p]),
        .arlen_o(arlen_o[p]),
        .arsize_o(arsize_o[p]),
        .arburst_o(arburst_o[p]),
        .rvalid_i(rvalid_i[p]),
        .rready_o(rready_o[p]),
        .rid_i(rid_i[p]),
        .rdata_i(rdata_i[p])
    );
    write_port #(
        .Dp(Dp),
        .Width(Width)
    ) i_write (
        .clk_i,
        .rst_ni,
        .valid_i(write_valid_i && write_number_i[PortBits-1:0] == PortBits'(p)),
        .ready_o(write_ready[p]),
        .number_i(write_number_i >> PortBits),
        .row_i(write_row_i),
        .idle_o(idle[p]),
        .port_clk_i,
        .port_rst_ni,
        .awvalid_o(awvalid_o[p]),
        .awready_i(awready_i[p]),
        .awaddr_o(awaddr_o[p]),
        .awlen_o(awlen_o[p]),
        .awsize_o(awsize_o[p]),
        .awburst_o(awburst_o[p]),
        .wvalid_o(wvalid_o[p]),
        .wready_i(wready_i[p]),
        .wlast_o(wlast_o[p]),
        .wdata_o(wdata_o[p]),
        .bvalid_i(bvalid_i[p]),
        .bready_o(bready_o[p])
    );
  end
  assign write_ready_o = write_ready[write_number_i[PortBits-1:0]];
  assign written_o = &idle;
endmodule
