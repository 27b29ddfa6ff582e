// TILE_ROWS activation rows times TILE_OUTPUTS weight rows by matrices: the one place that fixes the
// order of additions of numeric class mma128.
//
//   total   = sum of the segment sums, as dot_rows.wgsl has it
//   segment = sum over its groups of SCALE_COLUMNS columns, ascending, of scale * partial, by fma
//             from 0.0
//   partial = the group's products, MATRIX_K columns at a time, ascending, from 0.0: how those are
//             added is the adapter's, the same for every element
//
// An element depends on its activation row and its weight row alone: a tile is full of rows, some of
// them again and for nobody.
//
// A subgroup multiplies strips of STRIP outputs with all rows of the tile. The sums of a group go
// through workgroup memory to the invocations, of which each adds up four neighbouring outputs of
// TOKENS rows.
//
// Needs one of common/matrix_tiles*.wgsl, dot_rows.wgsl, one of weights_*.wgsl, x_plain.wgsl, and of
// the kernel `struct Tile` with the functions
//   tile_x(tile, t)        index of the first vec4f of activation row t of the tile
//   tile_granule(tile, n)  index of the first granule of weight row n of the tile
//   tile_scale(tile, n)    index of its first scale

const TILE_ROWS = 32u;
const TILE_OUTPUTS = 64u;
const STRIP = 16u;
const STRIPS = TILE_OUTPUTS / STRIP;
// Strips of a subgroup where there are the fewest subgroups.
const STRIPS_EACH = 1u;
// Columns that are staged at a time.
const CHUNK = 32u;
// What decoded weights are multiplied by, so that f16 holds them: a power of two.
const WEIGHT_UP = 1u;
// Padded, so that the rows of a matrix lie in different banks.
const OPERAND_STRIDE = CHUNK + OPERAND_PADDING;
const OPERAND_PADDING = 4u;
const PRODUCT_STRIDE = TILE_OUTPUTS;
const LEFT_NUMBERS = TILE_ROWS * OPERAND_STRIDE;
const RIGHT_NUMBERS = TILE_OUTPUTS * OPERAND_STRIDE;
const PRODUCT_NUMBERS = TILE_ROWS * PRODUCT_STRIDE;

const CHUNK_PIECES = CHUNK / PIECE_COLUMNS;
const CHUNK_VECTORS = CHUNK / 4u;
const GROUP_CHUNKS = SCALE_COLUMNS / CHUNK;
const ROW_MATRICES = TILE_ROWS / MATRIX_M;
const STRIP_MATRICES = STRIP / MATRIX_N;
const STRIP_PRODUCTS = ROW_MATRICES * STRIP_MATRICES;
const OUTPUT_QUADS = TILE_OUTPUTS / 4u;

alias StripProducts = array<Product, STRIPS_EACH * STRIP_PRODUCTS>;

const_assert SCALE_COLUMNS % CHUNK == 0u && CHUNK % PIECE_COLUMNS == 0u && CHUNK % MATRIX_K == 0u;
const_assert TILE_ROWS % MATRIX_M == 0u && STRIP % MATRIX_N == 0u;
const_assert 4u * TOKENS * WORKGROUP_SIZE == TILE_ROWS * TILE_OUTPUTS;

// The first of the four outputs, and of the TOKENS rows, that an invocation adds up.
fn own_output(invocation: u32) -> u32 {
  return invocation % OUTPUT_QUADS * 4u;
}

fn own_row(invocation: u32) -> u32 {
  return invocation / OUTPUT_QUADS * TOKENS;
}

// scale: index of the first scale of each of the invocation's outputs. Every invocation of the
// workgroup must call it, in uniform control flow.
fn matrix_sums(tile: Tile, scale: vec4u, lanes: Lanes) -> Sums {
  let leaves = tree_leaves();
  let at = own_row(lanes.invocation) * PRODUCT_STRIDE + own_output(lanes.invocation);
  var total = Sums();
  var waiting = Waiting();
  for (var leaf = 0u; leaf < leaves; leaf++) {
    let end = first_group(leaf + 1u);
    total = Sums();
    for (var group = first_group(leaf); group < end; group++) {
      multiply_group(tile, group, lanes);
      let factor = scale_values(group, scale_words(group, scale)) / f32(WEIGHT_UP);
      for (var t = 0u; t < TOKENS; t++) {
        let p = at + t * PRODUCT_STRIDE;
        let partial = vec4f(products[p], products[p + 1u], products[p + 2u], products[p + 3u]);
        total[t] = fma(factor, partial, total[t]);
      }
    }
    total = climb(&waiting, leaf, total);
  }
  return total;
}

// Leaves the products of one group in `products`. They may be read until the next call.
fn multiply_group(tile: Tile, group: u32, lanes: Lanes) {
  var sums = StripProducts();
  let used = (params.columns + CHUNK - 1u) / CHUNK;
  let end = min((group + 1u) * GROUP_CHUNKS, used);
  for (var chunk = group * GROUP_CHUNKS; chunk < end; chunk++) {
    stage_rows(tile, chunk, lanes.invocation);
    stage_weights(tile, group, chunk, lanes.invocation);
    workgroupBarrier();
    multiply_chunk(&sums, lanes);
    workgroupBarrier();
  }
  for (var i = 0u; i < STRIPS_EACH; i++) {
    let strip = subgroup_number(lanes) + i * subgroup_count(lanes);
    if strip < STRIPS {
      for (var r = 0u; r < ROW_MATRICES; r++) {
        for (var c = 0u; c < STRIP_MATRICES; c++) {
          let to = r * MATRIX_M * PRODUCT_STRIDE + strip * STRIP + c * MATRIX_N;
          store_product(to, sums[i * STRIP_PRODUCTS + r * STRIP_MATRICES + c]);
        }
      }
    }
  }
  workgroupBarrier();
}

fn multiply_chunk(sums: ptr<function, StripProducts>, lanes: Lanes) {
  for (var i = 0u; i < STRIPS_EACH; i++) {
    let strip = subgroup_number(lanes) + i * subgroup_count(lanes);
    if strip < STRIPS {
      for (var k = 0u; k < CHUNK; k += MATRIX_K) {
        for (var c = 0u; c < STRIP_MATRICES; c++) {
          let right = load_right((strip * STRIP + c * MATRIX_N) * OPERAND_STRIDE + k);
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

fn stage_rows(tile: Tile, chunk: u32, invocation: u32) {
  for (var i = invocation; i < TILE_ROWS * CHUNK_VECTORS; i += WORKGROUP_SIZE) {
    let t = i / CHUNK_VECTORS;
    let v = i % CHUNK_VECTORS;
    let vector = chunk * CHUNK_VECTORS + v;
    stage_left(t * OPERAND_STRIDE + 4u * v, masked(x_vector(tile_x(tile, t) + vector), vector));
  }
}

// Neighbouring invocations read the granules of neighbouring rows, which lie side by side.
fn stage_weights(tile: Tile, group: u32, chunk: u32, invocation: u32) {
  for (var i = invocation; i < TILE_OUTPUTS * CHUNK_PIECES; i += WORKGROUP_SIZE) {
    let n = i % TILE_OUTPUTS;
    let p = i / TILE_OUTPUTS;
    let word = scale_words(group, vec4u(tile_scale(tile, n))).x;
    let at = piece_at(vec4u(tile_granule(tile, n)), chunk * CHUNK_PIECES + p).x;
    let numbers = decode(weights[at], word);
    let to = n * OPERAND_STRIDE + p * PIECE_COLUMNS;
    for (var v = 0u; v < PIECE_VECTORS; v++) {
      stage_right(to + 4u * v, f32(WEIGHT_UP) * numbers[v]);
    }
  }
}
