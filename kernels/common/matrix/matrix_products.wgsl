// A tile of TILE_ROWS rows times one of TILE_OUTPUTS outputs, CHUNK columns at a time, by matrices: a
// subgroup multiplies strips of STRIP outputs with all rows.
//
// Needs one of matrix_tiles*.wgsl, and of the kernel WORKGROUP_SIZE and TOKENS, the rows that an
// invocation has four neighbouring outputs of.

const TILE_ROWS = 32u;
const TILE_OUTPUTS = 64u;
const STRIP = 16u;
const STRIPS = TILE_OUTPUTS / STRIP;
// Strips of a subgroup where there are the fewest subgroups.
const STRIPS_EACH = 1u;
// Columns that are staged at a time.
const CHUNK = 32u;
// Padded, so that the rows of a matrix lie in different banks.
const OPERAND_STRIDE = CHUNK + OPERAND_PADDING;
const OPERAND_PADDING = 4u;
const PRODUCT_STRIDE = TILE_OUTPUTS;
const VALUE_STRIDE = TILE_OUTPUTS + OPERAND_PADDING;
const LEFT_NUMBERS = TILE_ROWS * OPERAND_STRIDE;
const RIGHT_NUMBERS = TILE_OUTPUTS * OPERAND_STRIDE;
const PRODUCT_NUMBERS = TILE_ROWS * PRODUCT_STRIDE;

const CHUNK_VECTORS = CHUNK / 4u;
const ROW_MATRICES = TILE_ROWS / MATRIX_M;
const STRIP_MATRICES = STRIP / MATRIX_N;
const STRIP_PRODUCTS = ROW_MATRICES * STRIP_MATRICES;
const OUTPUT_QUADS = TILE_OUTPUTS / 4u;

alias StripProducts = array<Product, STRIPS_EACH * STRIP_PRODUCTS>;

const_assert CHUNK % MATRIX_K == 0u && CHUNK <= TILE_OUTPUTS;
const_assert TILE_ROWS % MATRIX_M == 0u && STRIP % MATRIX_N == 0u;
const_assert 4u * TOKENS * WORKGROUP_SIZE == TILE_ROWS * TILE_OUTPUTS;

// The first of the four outputs, and of the TOKENS rows, that an invocation adds up.
fn own_output(invocation: u32) -> u32 {
  return invocation % OUTPUT_QUADS * 4u;
}

fn own_row(invocation: u32) -> u32 {
  return invocation / OUTPUT_QUADS * TOKENS;
}

// Four of the sums of row r, from output n on, once they are in `products`.
fn product_at(r: u32, n: u32) -> vec4f {
  let p = r * PRODUCT_STRIDE + n;
  return vec4f(products[p], products[p + 1u], products[p + 2u], products[p + 3u]);
}

// Adds the products of CHUNK columns of the left tile. With `by_rows` the right tile has them as rows
// of TILE_OUTPUTS numbers, VALUE_STRIDE apart.
fn multiply_chunk(sums: ptr<function, StripProducts>, by_rows: bool, lanes: Lanes) {
  for (var i = 0u; i < STRIPS_EACH; i++) {
    let strip = subgroup_number(lanes) + i * subgroup_count(lanes);
    if strip < STRIPS {
      for (var k = 0u; k < CHUNK; k += MATRIX_K) {
        for (var c = 0u; c < STRIP_MATRICES; c++) {
          let column = strip * STRIP + c * MATRIX_N;
          var right = Right();
          if by_rows {
            right = load_right_rows(k * VALUE_STRIDE + column);
          } else {
            right = load_right(column * OPERAND_STRIDE + k);
          }
          for (var r = 0u; r < ROW_MATRICES; r++) {
            let left = load_left(r * MATRIX_M * OPERAND_STRIDE + k);
            let p = i * STRIP_PRODUCTS + r * STRIP_MATRICES + c;
            (*sums)[p] = multiply_add(left, right, (*sums)[p]);
          }
        }
      }
    }
  }
}

// Leaves the products in `products`, once all subgroups have.
fn store_products(sums: ptr<function, StripProducts>, lanes: Lanes) {
  for (var i = 0u; i < STRIPS_EACH; i++) {
    let strip = subgroup_number(lanes) + i * subgroup_count(lanes);
    if strip < STRIPS {
      for (var r = 0u; r < ROW_MATRICES; r++) {
        for (var c = 0u; c < STRIP_MATRICES; c++) {
          let to = r * MATRIX_M * PRODUCT_STRIDE + strip * STRIP + c * MATRIX_N;
          store_product(to, (*sums)[i * STRIP_PRODUCTS + r * STRIP_MATRICES + c]);
        }
      }
    }
  }
}
