// Instructions of an element, and its latencies.
//
// A compute instruction is one pass: a limb through the lanes, N / Dp rows, one row per cycle. `accelerator/isa.py` has the same
// fields in the same order; tests compare the two.
package fame_pkg;
  localparam int TableBits = 6;  // of the numbers of moduli and of Galois elements
  localparam int ScalarBits = 8;
  localparam int RowBits = 13;  // of a bank's rows
  localparam int FloorBits = 6;  // of an overflow's whole part
  localparam int Banks = 4;
  localparam int AddressBits = 32;  // of rows in memory, and of bytes at a port

  typedef enum logic [2:0] {
    Mul,      // a b
    Mac,      // c + a b
    Add,      // a + c
    Forward,  // butterflies of the forward transform: u + v w, u - v w
    Inverse,  // of the inverse one: u + v, (u - v) w
    Last,     // of its last stage: c + (u + v) b_even, c + (u - v) b_odd
    AddMul    // (a + c) b
  } arithmetic_e;

  typedef enum logic [1:0] {
    Straight,
    RotateLeft,   // word i to position rotl(i), the index rotated left by one bit
    RotateRight,
    Automorphism
  } permutation_e;

  typedef enum logic [2:0] {
    Scalar,      // one word for all lanes
    ScalarPair,  // one for the even lanes, the next of the table for the odd ones
    Rows,        // of a bank
    Twiddles,    // of a bank, by stage
    Stream       // the next row of what streams in
  } factors_e;

  typedef enum logic [1:0] {
    Moduli,
    Scalars,
    GaloisElements
  } table_e;

  typedef struct packed {
    logic [8:0]            reserved;
    arithmetic_e           arithmetic;
    permutation_e          permutation;  // of operand a
    logic [TableBits-1:0]  galois;       // number of the Galois element
    factors_e              factors;      // operand b
    logic [3:0]            stage;        // of the transform, for Twiddles
    logic [TableBits-1:0]  modulus;      // number of the modulus
    logic                  high;         // products are shifted right and not reduced
    logic                  floor;        // operand a is its six top bits
    logic                  constant;     // operand c is a scalar
    logic [ScalarBits-1:0] scalar;
    logic [ScalarBits-1:0] c_scalar;
    logic [1:0]            a_bank;
    logic [1:0]            b_bank;
    logic [1:0]            c_bank;
    logic [1:0]            d_bank;
    logic [RowBits-1:0]    a_row;        // first rows
    logic [RowBits-1:0]    b_row;
    logic [RowBits-1:0]    c_row;
    logic [RowBits-1:0]    d_row;
    logic [11:0]           waits;        // cycles before it starts: the schedule
    logic                  wait_load;    // takes a token of the queue of loads
    logic                  wait_store;
    logic                  give_load;    // gives one when its last row is written
    logic                  give_store;
  } instruction_t;

  // Cycles from the operands of a multiplier to its result.
  function automatic int multiplier_latency(int stages);
    return 3 * stages + 5;
  endfunction

  // Through the lanes: an adder, the multiplier, an adder.
  function automatic int lane_latency(int stages);
    return multiplier_latency(stages) + 4;
  endfunction

  // From the address of a row to the lanes: bank, register, corner (2), and a stage of the network per bit of a lane's number.
  // With buffers of so many rows in place of the corner, half of them and two cycles more; 0: without.
  function automatic int operand_latency(int dp, int buffered_rows);
    return 4 + $clog2(dp) + (buffered_rows == 0 ? 0 : buffered_rows / 2 + 2);
  endfunction

  // Operations that take operand c.
  function automatic logic takes_c(arithmetic_e arithmetic);
    return arithmetic inside {Mac, Add, Last, AddMul};
  endfunction
endpackage
