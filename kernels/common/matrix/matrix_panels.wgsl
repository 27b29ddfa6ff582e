// A tile of TILE_ROWS rows times one of TILE_OUTPUTS outputs, CHUNK columns at a time, by matrices: a
// subgroup multiplies panels of PANEL_ROWS rows and PANEL_OUTPUTS outputs, whose sums stay in its
// registers.
//
// Needs one of matrix_tiles*.wgsl, what panel_text.ts makes, and of the kernel WORKGROUP_SIZE and TOKENS, the rows that an
// invocation has four neighbouring outputs of.

const TILE_ROWS = 64u;
const TILE_OUTPUTS = 128u;
const PANEL_ROWS = 32u;
const PANEL_OUTPUTS = 32u;
const ROW_PANELS = TILE_ROWS / PANEL_ROWS;
const PANELS = ROW_PANELS * (TILE_OUTPUTS / PANEL_OUTPUTS);
// Columns that are staged at a time.
const CHUNK = 32u;
// Padded, so that the rows of a matrix lie in different banks.
const OPERAND_STRIDE = CHUNK + OPERAND_PADDING;
const OPERAND_PADDING = 8u;
const PRODUCT_STRIDE = TILE_OUTPUTS;
const VALUE_STRIDE = TILE_OUTPUTS + OPERAND_PADDING;
const LEFT_NUMBERS = TILE_ROWS * OPERAND_STRIDE;
const RIGHT_NUMBERS = TILE_OUTPUTS * OPERAND_STRIDE;
// Sums go through `products` so many rows at a time.
const TURN_ROWS = 16u;
const PRODUCT_NUMBERS = TURN_ROWS * PRODUCT_STRIDE;

const CHUNK_VECTORS = CHUNK / 4u;
const OUTPUT_QUADS = TILE_OUTPUTS / 4u;
// Rows that an invocation adds up in each turn.
const TURN_TOKENS = TURN_ROWS * OUTPUT_QUADS / WORKGROUP_SIZE;

const_assert CHUNK % MATRIX_K == 0u && TURN_ROWS % MATRIX_M == 0u;
const_assert PANEL_ROWS % MATRIX_M == 0u && PANEL_OUTPUTS % MATRIX_N == 0u;
const_assert TILE_ROWS % PANEL_ROWS == 0u && TILE_OUTPUTS % PANEL_OUTPUTS == 0u;
const_assert TURN_TOKENS > 0u && TOKENS == TILE_ROWS / TURN_ROWS * TURN_TOKENS;

// The first of the four outputs that an invocation adds up.
fn own_output(invocation: u32) -> u32 {
  return invocation % OUTPUT_QUADS * 4u;
}

// Number t of the TOKENS rows that it adds them up of.
fn own_row(invocation: u32, t: u32) -> u32 {
  return t / TURN_TOKENS * TURN_ROWS + turn_row(invocation, t);
}

// The same row among those of its turn.
fn turn_row(invocation: u32, t: u32) -> u32 {
  return invocation / OUTPUT_QUADS * TURN_TOKENS + t % TURN_TOKENS;
}

// Four of the sums of row r of a turn, from output n on.
fn product_at(r: u32, n: u32) -> vec4f {
  let p = r * PRODUCT_STRIDE + n;
  return vec4f(products[p], products[p + 1u], products[p + 2u], products[p + 3u]);
}
