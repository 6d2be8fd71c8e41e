// What mod_add promises, for all words and moduli: a residue below q that differs from a + b, or a - b, by 0 or by q.
module mod_add_proof #(
    parameter int Width = 54
) (
    input logic clk_i,
    input logic subtract_i,
    input logic [Width-1:0] a_i,
    input logic [Width-1:0] b_i,
    input logic [Width-1:0] q_i
);
  // Entry k: the inputs of k + 1 cycles ago.
  logic [Width-1:0] a[2], b[2], q[2];
  logic subtract[2];
  logic [1:0] cycles = 0;
  logic [Width-1:0] r;
  // With one bit more, so that no sum wraps.
  logic [Width:0] wide_a, wide_b, wide_q, wide_r;

  mod_add #(
      .Width(Width)
  ) i_add (
      .clk_i,
      .subtract_i,
      .a_i,
      .b_i,
      .q_i,
      .r_o(r)
  );

  always_ff @(posedge clk_i) begin
    a[0] <= a_i;
    b[0] <= b_i;
    q[0] <= q_i;
    subtract[0] <= subtract_i;
    a[1] <= a[0];
    b[1] <= b[0];
    q[1] <= q[0];
    subtract[1] <= subtract[0];
    if (cycles != 3) cycles <= cycles + 1;
  end
  assign wide_a = {1'b0, a[1]};
  assign wide_b = {1'b0, b[1]};
  assign wide_q = {1'b0, q[1]};
  assign wide_r = {1'b0, r};

  always_comb begin
    assume (a_i < q_i && b_i < q_i);
    assume (cycles == 0 || q_i == q[0]);  // q comes with the second cycle of the same words
    if (cycles >= 2) begin
      assert (wide_r < wide_q);
      if (subtract[1])
        assert (wide_r + wide_b == wide_a || wide_r + wide_b == wide_a + wide_q);
        else assert (wide_r == wide_a + wide_b || wide_r + wide_q == wide_a + wide_b);
    end
  end
endmodule
