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
// them repeated and not used.
//
// The sums of a group go through workgroup memory to the invocations, of which each adds up four
// neighbouring outputs of TOKENS rows.
//
// Needs matrix_products.wgsl, dot_rows.wgsl, weight_order.wgsl, one of weights_*.wgsl, x_plain.wgsl,
// and of the kernel `struct Tile` with the functions
//   tile_x(tile, t)        index of the first vec4f of activation row t of the tile
//   tile_granule(tile, n)  index of the first granule of weight row n of the tile
//   tile_scale(tile, n)    index of its first scale

// What decoded weights are multiplied by, so that f16 holds them: a power of two, and its inverse.
const WEIGHT_UP = 1u;
const WEIGHT_DOWN = 1.0 / f32(WEIGHT_UP);
const CHUNK_PIECES = CHUNK / PIECE_COLUMNS;
const GROUP_CHUNKS = SCALE_COLUMNS / CHUNK;

const_assert SCALE_COLUMNS % CHUNK == 0u && CHUNK % PIECE_COLUMNS == 0u;

// scale: index of the first scale of each of the invocation's outputs. Every invocation of the
// workgroup must call it, in uniform control flow.
fn matrix_sums(tile: Tile, scale: vec4u, lanes: Lanes) -> Sums {
  let leaves = tree_leaves();
  let row = own_row(lanes.invocation);
  let output = own_output(lanes.invocation);
  var total = Sums();
  var waiting = Waiting();
  for (var leaf = 0u; leaf < leaves; leaf++) {
    let end = first_group(leaf + 1u);
    total = Sums();
    for (var group = first_group(leaf); group < end; group++) {
      multiply_group(tile, group, lanes);
      let factor = scale_values(group, scale_words(group, scale)) * WEIGHT_DOWN;
      for (var t = 0u; t < TOKENS; t++) {
        total[t] = fma(factor, product_at(row + t, output), total[t]);
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
    multiply_chunk(&sums, false, lanes);
    workgroupBarrier();
  }
  store_products(&sums, lanes);
  workgroupBarrier();
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
