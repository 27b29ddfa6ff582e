// Panels of a tile: a subgroup multiplies some of PANEL_ROWS rows and PANEL_OUTPUTS outputs, CHUNK columns
// at a time, and keeps the sums in its registers. A tile has TILE_ROWS rows and TILE_OUTPUTS outputs.
//
// Products are written out, one line each: in loops, compilers check each index of the sums and keep
// them in memory. On an H200 tiles of 64 by 64 were multiplied 1.66 times as fast this way.
//
// Needs one of matrix_tiles*.wgsl, matrix_turns.wgsl for sums, and of the kernel WORKGROUP_SIZE and TOKENS, the rows that an
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

// Panels of a subgroup where there are the fewest subgroups.
const PANELS_EACH = 1u;
const CHUNK_VECTORS = CHUNK / 4u;
const ROW_MATRICES = PANEL_ROWS / MATRIX_M;
const OUTPUT_MATRICES = PANEL_OUTPUTS / MATRIX_N;
const OUTPUT_QUADS = TILE_OUTPUTS / 4u;
// Rows that an invocation adds up in each turn.
const TURN_TOKENS = TURN_ROWS * OUTPUT_QUADS / WORKGROUP_SIZE;

// The products of a panel: of rows r and outputs c of its matrices in p<r><c>.
struct Panel {
  p00: Product,
  p01: Product,
  p02: Product,
  p03: Product,
  p10: Product,
  p11: Product,
  p12: Product,
  p13: Product,
  p20: Product,
  p21: Product,
  p22: Product,
  p23: Product,
  p30: Product,
  p31: Product,
  p32: Product,
  p33: Product,
}

alias PanelProducts = array<Panel, PANELS_EACH>;

const_assert ROW_MATRICES <= 4u && OUTPUT_MATRICES <= 4u;
const_assert CHUNK % MATRIX_K == 0u && TURN_ROWS % MATRIX_M == 0u;
const_assert PANEL_ROWS % MATRIX_M == 0u && PANEL_OUTPUTS % MATRIX_N == 0u;
const_assert TILE_ROWS % PANEL_ROWS == 0u && TILE_OUTPUTS % PANEL_OUTPUTS == 0u;
const_assert TURN_TOKENS > 0u && TOKENS == TILE_ROWS / TURN_ROWS * TURN_TOKENS;

// The first of the four outputs that an invocation adds up.
fn sum_output(invocation: u32) -> u32 {
  return invocation % OUTPUT_QUADS * 4u;
}

// Number t of the TOKENS rows that it adds them up of.
fn sum_row(invocation: u32, t: u32) -> u32 {
  return t / TURN_TOKENS * TURN_ROWS + turn_row(invocation, t);
}

// The same row among those of its turn.
fn turn_row(invocation: u32, t: u32) -> u32 {
  return invocation / OUTPUT_QUADS * TURN_TOKENS + t % TURN_TOKENS;
}

// Adds the products of CHUNK columns.
fn multiply_panels(sums: ptr<function, PanelProducts>, lanes: Lanes) {
  for (var i = 0u; i < PANELS_EACH; i++) {
    let panel = subgroup_number(lanes) + i * subgroup_count(lanes);
    if panel < PANELS {
      let first_row = panel % ROW_PANELS * PANEL_ROWS;
      let first_output = panel / ROW_PANELS * PANEL_OUTPUTS;
      for (var k = 0u; k < CHUNK; k += MATRIX_K) {
        let left0 = load_left(first_row * OPERAND_STRIDE + k);
        var left1 = Left();
        if ROW_MATRICES > 1u { left1 = load_left((first_row + 1u * MATRIX_M) * OPERAND_STRIDE + k); }
        var left2 = Left();
        if ROW_MATRICES > 2u { left2 = load_left((first_row + 2u * MATRIX_M) * OPERAND_STRIDE + k); }
        var left3 = Left();
        if ROW_MATRICES > 3u { left3 = load_left((first_row + 3u * MATRIX_M) * OPERAND_STRIDE + k); }
        {
          let right = load_right(first_output * OPERAND_STRIDE + k);
          (*sums)[i].p00 = multiply_add(left0, right, (*sums)[i].p00);
          if ROW_MATRICES > 1u {
            (*sums)[i].p10 = multiply_add(left1, right, (*sums)[i].p10);
          }
          if ROW_MATRICES > 2u {
            (*sums)[i].p20 = multiply_add(left2, right, (*sums)[i].p20);
          }
          if ROW_MATRICES > 3u {
            (*sums)[i].p30 = multiply_add(left3, right, (*sums)[i].p30);
          }
        }
        if OUTPUT_MATRICES > 1u {
          let right = load_right((first_output + 1u * MATRIX_N) * OPERAND_STRIDE + k);
          (*sums)[i].p01 = multiply_add(left0, right, (*sums)[i].p01);
          if ROW_MATRICES > 1u {
            (*sums)[i].p11 = multiply_add(left1, right, (*sums)[i].p11);
          }
          if ROW_MATRICES > 2u {
            (*sums)[i].p21 = multiply_add(left2, right, (*sums)[i].p21);
          }
          if ROW_MATRICES > 3u {
            (*sums)[i].p31 = multiply_add(left3, right, (*sums)[i].p31);
          }
        }
        if OUTPUT_MATRICES > 2u {
          let right = load_right((first_output + 2u * MATRIX_N) * OPERAND_STRIDE + k);
          (*sums)[i].p02 = multiply_add(left0, right, (*sums)[i].p02);
          if ROW_MATRICES > 1u {
            (*sums)[i].p12 = multiply_add(left1, right, (*sums)[i].p12);
          }
          if ROW_MATRICES > 2u {
            (*sums)[i].p22 = multiply_add(left2, right, (*sums)[i].p22);
          }
          if ROW_MATRICES > 3u {
            (*sums)[i].p32 = multiply_add(left3, right, (*sums)[i].p32);
          }
        }
        if OUTPUT_MATRICES > 3u {
          let right = load_right((first_output + 3u * MATRIX_N) * OPERAND_STRIDE + k);
          (*sums)[i].p03 = multiply_add(left0, right, (*sums)[i].p03);
          if ROW_MATRICES > 1u {
            (*sums)[i].p13 = multiply_add(left1, right, (*sums)[i].p13);
          }
          if ROW_MATRICES > 2u {
            (*sums)[i].p23 = multiply_add(left2, right, (*sums)[i].p23);
          }
          if ROW_MATRICES > 3u {
            (*sums)[i].p33 = multiply_add(left3, right, (*sums)[i].p33);
          }
        }
      }
    }
  }
}
