// A processing element: sequencer, scratchpad, permutation circuit and lanes. Every pass is: read, permute, compute, write.
//
// A row issued in cycle t is in the lanes at t + operand_latency and is written lane_latency later. Operands b and c are not
// permuted: their addresses go out two cycles before the lanes need them. Nothing waits on the way: `waits` of instructions
// keeps every row from being read before it is written, and every bank from being read twice, which assertions watch.
module element
  import fame_pkg::*;
#(
    parameter int    Dp       = 8,
    parameter int    LogN     = 12,      // of the largest ring; Buffered: of the only one
    parameter bit    Buffered = 0,       // the form of the permutation circuit
    parameter int    Width    = 54,
    parameter int    Stages   = 4,
    parameter bit    Tiled    = 0,
    parameter int    BankRows = 4096,
    parameter string Style    = "block"
) (
    input logic clk_i,
    input logic rst_ni,
    input logic [3:0] log_r_i,  // of a limb's rows
    input logic instruction_valid_i,
    output logic instruction_ready_o,
    input instruction_t instruction_i,
    input logic entry_valid_i,  // an entry of a table is written
    input table_e entry_table_i,
    input logic [ScalarBits-1:0] entry_number_i,
    input logic [3:0][Width-1:0] entry_i,
    input logic stream_valid_i,
    output logic stream_ready_o,  // the row is taken
    input logic [Dp-1:0][Width-1:0] stream_i,
    output logic idle_o,
    output logic [31:0] cycles_o,  // since reset, in which it was not idle
    output logic [31:0] issued_o  // of these, with a row issued
);
  localparam int LogR = LogN - $clog2(Dp);
  localparam int ToLanes = operand_latency(Dp, Buffered ? 1 << LogR : 0);
  localparam int ToBank = ToLanes + lane_latency(Stages);
  localparam int Skew = ToLanes - 2;  // to the addresses of operands b and c

  typedef struct packed {
    logic valid;
    logic [LogR-1:0] row;
    instruction_t instruction;
  } control_t;

  // What is issued, and what was issued k cycles ago.
  instruction_t current;
  logic running;
  logic issue;
  logic [LogR-1:0] row;
  control_t travelling[ToBank+2];
  control_t at_banks;
  control_t at_lanes;
  control_t done;

  sequencer #(
      .LogR(LogR)
  ) i_sequencer (
      .clk_i,
      .rst_ni,
      .log_r_i,
      .valid_i(instruction_valid_i),
      .ready_o(instruction_ready_o),
      .instruction_i,
      .running_o(running),
      .issue_o(issue),
      .row_o(row),
      .current_o(current)
  );
  assign travelling[0] = '{valid: issue, row: row, instruction: current};
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      for (int k = 1; k < ToBank + 2; k++) travelling[k] <= '0;
    end else begin
      for (int k = 1; k < ToBank + 2; k++) travelling[k] <= travelling[k-1];
    end
  end
  assign at_banks = travelling[Skew];
  assign at_lanes = travelling[ToLanes];
  assign done = travelling[ToBank];

  // Addresses: of operand a, of operands b and c, of the result.
  localparam int LaneBits = $clog2(Dp);
  logic [LogN:0] galois;
  logic [RowBits-1:0] a_row;
  logic [RowBits-1:0] b_row;
  logic [RowBits-1:0] c_row;
  logic [RowBits-1:0] d_row;
  logic [LaneBits-1:0] lane_g;
  logic [LaneBits-1:0] lane_c;
  logic upper_half;
  logic [LogR-1:0] a_offset;
  logic [LogR-1:0] out_offset[ToBank-Skew+1];
  logic [LogR:0] twiddle_offset;

  operand_rows #(
      .Dp(Dp),
      .LogN(LogN),
      .Buffered(Buffered)
  ) i_operand_rows (
      .log_r_i,
      .row_i(row),
      .permutation_i(current.permutation),
      .galois_i(galois),
      .row_o(a_offset),
      .g_o(lane_g),
      .c_o(lane_c)
  );
  result_rows #(
      .Dp(Dp),
      .LogN(LogN),
      .Buffered(Buffered)
  ) i_result_rows (
      .log_r_i,
      .row_i(at_banks.row),
      .permutation_i(at_banks.instruction.permutation),
      .stage_i(at_banks.instruction.stage),
      .row_o(out_offset[0]),
      .twiddle_row_o(twiddle_offset),
      .upper_half_o(upper_half)
  );
  assign a_row = current.a_row + RowBits'(a_offset);
  assign b_row = at_banks.instruction.b_row +
      (at_banks.instruction.factors == Twiddles ? RowBits'(twiddle_offset) : RowBits'(out_offset[0]));
  assign c_row = at_banks.instruction.c_row + RowBits'(out_offset[0]);
  assign d_row = done.instruction.d_row + RowBits'(out_offset[ToBank-Skew]);
  always_ff @(posedge clk_i) begin
    for (int k = 1; k <= ToBank - Skew; k++) out_offset[k] <= out_offset[k-1];
  end

  // Tables.
  logic [Width-1:0] even;
  logic [Width-1:0] odd;
  logic [Width-1:0] c_scalar;
  logic [Width-1:0] q;
  logic [Width-1:0] q_mul;
  logic [Width-1:0] mu;
  logic [5:0] shift;
  constants #(
      .Width(Width),
      .LogN (LogN)
  ) i_constants (
      .clk_i,
      .write_i(entry_valid_i),
      .table_i(entry_table_i),
      .number_i(entry_number_i),
      .entry_i,
      .galois_i(current.galois),
      .galois_o(galois),
      .scalar_i(at_banks.instruction.scalar),
      .even_o(even),
      .odd_o(odd),
      .c_scalar_i(at_banks.instruction.c_scalar),
      .c_o(c_scalar),
      .modulus_i(at_lanes.instruction.modulus),
      .q_o(q),
      .q_mul_o(q_mul),
      .mu_o(mu),
      .shift_o(shift)
  );

  // Rows of the scratchpad.
  logic reads_b;
  logic reads_c;
  logic [Dp-1:0][Width-1:0] a_read;
  logic [Dp-1:0][Width-1:0] b_read;
  logic [Dp-1:0][Width-1:0] c_read;
  logic [Dp-1:0][Width-1:0] result;
  assign reads_b = at_banks.valid && at_banks.instruction.factors inside {Rows, Twiddles};
  assign reads_c = at_banks.valid && takes_c(
      at_banks.instruction.arithmetic
  ) && !at_banks.instruction.constant;
  scratchpad #(
      .Dp(Dp),
      .Width(Width),
      .BankRows(BankRows),
      .Style(Style)
  ) i_scratchpad (
      .clk_i,
      .read_i({reads_c, reads_b, issue}),
      .read_bank_i({at_banks.instruction.c_bank, at_banks.instruction.b_bank, current.a_bank}),
      .read_row_i({c_row, b_row, a_row}),
      .a_o(a_read),
      .b_o(b_read),
      .c_o(c_read),
      .write_i(done.valid),
      .write_bank_i(done.instruction.d_bank),
      .write_row_i(d_row),
      .write_data_i(result)
  );

  // Operand a, permuted.
  logic [Dp-1:0][Width-1:0] a_registered;
  logic [Dp-1:0][Width-1:0] a_permuted;
  logic [Dp-1:0][Width-1:0] a_lanes;
  logic [LaneBits-1:0] lane_g_later[2];
  logic [LaneBits-1:0] lane_c_later[2];
  always_ff @(posedge clk_i) begin
    a_registered <= a_read;
    lane_g_later[0] <= lane_g;
    lane_g_later[1] <= lane_g_later[0];
    lane_c_later[0] <= lane_c;
    lane_c_later[1] <= lane_c_later[0];
  end
  permutation_circuit #(
      .Dp(Dp),
      .Width(Width),
      .LogR(LogR),
      .Buffered(Buffered)
  ) i_permutation (
      .clk_i,
      .rst_ni,
      .valid_i(travelling[2].valid),
      .permutation_i(travelling[2].instruction.permutation),
      .row_i(travelling[2].row),
      .g_i(lane_g_later[1]),
      .c_i(lane_c_later[1]),
      .x_i(a_registered),
      .x_o(a_permuted)
  );
  always_comb begin
    for (int k = 0; k < Dp; k++) begin
      a_lanes[k] = at_lanes.instruction.floor ? Width'(a_permuted[k][Width-1-:FloorBits]) : a_permuted[k];
    end
  end

  // Operands b and c, from where the instruction says.
  control_t choosing;
  logic takes_upper_half;
  logic [Dp-1:0][Width-1:0] b_lanes;
  logic [Dp-1:0][Width-1:0] c_lanes;
  assign choosing = travelling[Skew+1];
  assign stream_ready_o = choosing.valid && choosing.instruction.factors == Stream;
  always_ff @(posedge clk_i) begin
    takes_upper_half <= upper_half;
    for (int k = 0; k < Dp; k++) begin
      c_lanes[k] <= choosing.instruction.constant ? c_scalar : c_read[k];
      unique case (choosing.instruction.factors)
        Rows: b_lanes[k] <= b_read[k];
        Stream: b_lanes[k] <= stream_i[k];
        Twiddles: b_lanes[k] <= takes_upper_half ? b_read[Dp/2+k/2] : b_read[k/2];
        ScalarPair: b_lanes[k] <= k % 2 == 1 ? odd : even;
        default: b_lanes[k] <= even;
      endcase
    end
  end

  lane_array #(
      .Dp(Dp),
      .Width(Width),
      .Stages(Stages),
      .Tiled(Tiled)
  ) i_lanes (
      .clk_i,
      .arithmetic_i(at_lanes.instruction.arithmetic),
      .high_i(at_lanes.instruction.high),
      .q_i(q),
      .q_mul_i(q_mul),
      .mu_i(mu),
      .shift_i(shift),
      .a_i(a_lanes),
      .b_i(b_lanes),
      .c_i(c_lanes),
      .r_o(result)
  );

  // A result counts until it can be read.
  logic busy;
  always_comb begin
    busy = running;
    for (int k = 1; k < ToBank + 2; k++) busy |= travelling[k].valid;
  end
  assign idle_o = !busy;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      cycles_o <= '0;
      issued_o <= '0;
    end else begin
      if (busy) cycles_o <= cycles_o + 32'd1;
      if (issue) issued_o <= issued_o + 32'd1;
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    assert (!issue || !Buffered || 32'(log_r_i) == LogR)
    else $error("With buffers an element has one ring.");
  end
  program_checks #(
      .Dp(Dp),
      .LogN(LogN),
      .Width(Width),
      .Stages(Stages),
      .BankRows(BankRows),
      .Buffered(Buffered)
  ) i_checks (
      .clk_i,
      .rst_ni,
      .log_r_i,
      .issue_i(issue),
      .row_i(row),
      .current_i(current),
      .galois_i(galois),
      .done_i(done.valid),
      .q_i(q),
      .result_i(result),
      .stream_ready_i(stream_ready_o),
      .stream_valid_i
  );
`endif
endmodule
