// A queue between two clocks. Each side sees the other's pointer in Gray code, of which one bit changes at a time, through two
// registers: a pointer that is read while it changes is the one before or the one after, and both are safe, since what is seen of the
// writer is never too many words, and of the reader never too much room.
module async_fifo #(
    parameter int Width = 8,
    parameter int Depth = 4,  // a power of two
    localparam int Bits = $clog2(Depth)
) (
    input  logic             write_clk_i,
    input  logic             write_rst_ni,
    input  logic             valid_i,
    output logic             ready_o,
    input  logic [Width-1:0] data_i,
    input  logic             read_clk_i,
    input  logic             read_rst_ni,
    output logic             valid_o,
    input  logic             ready_i,
    output logic [Width-1:0] data_o
);
  logic [Width-1:0] words[Depth];
  logic [Bits:0] written;
  logic [Bits:0] read;
  logic [Bits:0] written_gray;
  logic [Bits:0] read_gray;
  logic [Bits:0] written_seen[2];  // by the reader, in Gray code
  logic [Bits:0] read_seen[2];  // by the writer
  logic [Bits:0] written_next;
  logic [Bits:0] read_next;

  // In Gray code the two top bits of pointers that are Depth apart differ, and no other ones.
  assign ready_o = written_gray != (read_seen[1] ^ {2'b11, {(Bits - 1) {1'b0}}});
  assign valid_o = read_gray != written_seen[1];
  assign data_o = words[read[Bits-1:0]];
  assign written_next = written + (Bits + 1)'(valid_i && ready_o);
  assign read_next = read + (Bits + 1)'(valid_o && ready_i);

  always_ff @(posedge write_clk_i) if (valid_i && ready_o) words[written[Bits-1:0]] <= data_i;
  always_ff @(posedge write_clk_i or negedge write_rst_ni) begin
    if (!write_rst_ni) begin
      written <= '0;
      written_gray <= '0;
      read_seen[0] <= '0;
      read_seen[1] <= '0;
    end else begin
      written <= written_next;
      written_gray <= written_next ^ (written_next >> 1);
      read_seen[0] <= read_gray;
      read_seen[1] <= read_seen[0];
    end
  end
  always_ff @(posedge read_clk_i or negedge read_rst_ni) begin
    if (!read_rst_ni) begin
      read <= '0;
      read_gray <= '0;
      written_seen[0] <= '0;
      written_seen[1] <= '0;
    end else begin
      read <= read_next;
      read_gray <= read_next ^ (read_next >> 1);
      written_seen[0] <= written_gray;
      written_seen[1] <= written_seen[0];
    end
  end

`ifdef FORMAL
  // From the state after a reset on, for all words, clocks and orders of their edges: no word is lost or comes twice, and what leaves as
  // the word of any number is what came as that one.
  (* anyconst *) logic [Bits:0] chosen;
  logic [Width-1:0] sent;
  logic [Bits:0] reader_seen[2];
  logic [Bits:0] writer_seen[2];

  initial begin
    written = '0;
    read = '0;
    written_gray = '0;
    read_gray = '0;
    written_seen[0] = '0;
    written_seen[1] = '0;
    read_seen[0] = '0;
    read_seen[1] = '0;
  end
  always_comb begin
    for (int k = 0; k < 2; k++) begin
      reader_seen[k] = read_seen[k];
      writer_seen[k] = written_seen[k];
      for (int b = 1; b <= Bits; b++) begin
        reader_seen[k] = reader_seen[k] ^ (read_seen[k] >> b);
        writer_seen[k] = writer_seen[k] ^ (written_seen[k] >> b);
      end
    end
  end
  always_ff @(posedge write_clk_i) if (valid_i && ready_o && written == chosen) sent <= data_i;
  always_comb begin
    assume (write_rst_ni && read_rst_ni);
    assert (written_gray == (written ^ (written >> 1)) && read_gray == (read ^ (read >> 1)));
    assert ((Bits + 1)'(written - reader_seen[1]) <= (Bits + 1)'(Depth));
    assert ((Bits + 1)'(read - reader_seen[1]) <= (Bits + 1)'(written - reader_seen[1]));
    assert ((Bits + 1)'(reader_seen[0] - reader_seen[1]) <= (Bits + 1)'(read - reader_seen[1]));
    assert ((Bits + 1)'(writer_seen[0] - read) <= (Bits + 1)'(written - read));
    assert ((Bits + 1)'(writer_seen[1] - read) <= (Bits + 1)'(writer_seen[0] - read));
    if ((Bits + 1)'(chosen - read) < (Bits + 1)'(written - read)) assert (words[chosen[Bits-1:0]] == sent);
    if (valid_o && read == chosen) assert (data_o == sent);
  end
`endif
endmodule
