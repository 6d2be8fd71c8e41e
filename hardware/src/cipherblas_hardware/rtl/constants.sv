// The tables that instructions name entries of: moduli, scalars and Galois elements, which are written an entry at a time: of moduli q, q of the
// multiplier, mu and shift; of the others the first word alone.
module constants
  import fame_pkg::*;
#(
    parameter int Width = 54,
    parameter int LogN  = 12
) (
    input  logic                               clk_i,
    input  logic                               write_i,
    input  table_e                             table_i,
    input  logic   [ScalarBits-1:0]            number_i,
    input  logic   [           3:0][Width-1:0] entry_i,
    input  logic   [ TableBits-1:0]            galois_i,
    output logic   [        LogN:0]            galois_o,    // in the same cycle
    input  logic   [ScalarBits-1:0]            scalar_i,
    output logic   [     Width-1:0]            even_o,      // the scalar, a cycle later
    output logic   [     Width-1:0]            odd_o,       // the next one of the table
    input  logic   [ScalarBits-1:0]            c_scalar_i,
    output logic   [     Width-1:0]            c_o,         // a cycle later
    input  logic   [ TableBits-1:0]            modulus_i,
    output logic   [     Width-1:0]            q_o,         // a cycle later
    output logic   [     Width-1:0]            q_mul_o,
    output logic   [     Width-1:0]            mu_o,
    output logic   [           5:0]            shift_o
);
  logic [LogN:0] galois[1<<TableBits];
  logic [Width-1:0] scalars[1<<ScalarBits];
  logic [Width-1:0] q[1<<TableBits];
  logic [Width-1:0] q_mul[1<<TableBits];
  logic [Width-1:0] mu[1<<TableBits];
  logic [5:0] shift[1<<TableBits];

  always_ff @(posedge clk_i) begin
    if (write_i) begin
      unique case (table_i)
        Moduli: begin
          q[number_i[TableBits-1:0]] <= entry_i[0];
          q_mul[number_i[TableBits-1:0]] <= entry_i[1];
          mu[number_i[TableBits-1:0]] <= entry_i[2];
          shift[number_i[TableBits-1:0]] <= entry_i[3][5:0];
        end
        Scalars: scalars[number_i] <= entry_i[0];
        default: galois[number_i[TableBits-1:0]] <= entry_i[0][LogN:0];
      endcase
    end
  end

  assign galois_o = galois[galois_i];
  always_ff @(posedge clk_i) begin
    even_o <= scalars[scalar_i];
    odd_o <= scalars[scalar_i+ScalarBits'(1)];
    c_o <= scalars[c_scalar_i];
    q_o <= q[modulus_i];
    q_mul_o <= q_mul[modulus_i];
    mu_o <= mu[modulus_i];
    shift_o <= shift[modulus_i];
  end
endmodule
