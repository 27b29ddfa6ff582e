// TILE_ROWS activation rows times TILE_OUTPUTS weight rows by matrices: the one place that fixes the
// order of additions of numeric class mma128.
//
//   total   = sum of the segment sums, as dot_rows.wgsl has it
//   segment = sum of its runs of RUN_COLUMNS columns, the last a short one, ascending, from 0.0
//   run     = the run's products, MATRIX_K columns at a time, ascending, from 0.0: how those are
//             added is the adapter's, the same for every element
//
// A weight is multiplied by its scale before it becomes an operand.
//
// An element depends on its activation row and its weight row alone: a tile is full of rows, some of
// them repeated and not used.
//
// The sums of a run go through workgroup memory to the invocations, of which each adds up four
// neighbouring outputs of TOKENS rows.
//
// Needs matrix_panels.wgsl, matrix_turns.wgsl, dot_rows.wgsl, weight_order.wgsl, one of weights_*.wgsl, x_plain.wgsl,
// and of the kernel `struct Tile` with the functions
//   tile_x(tile, t)        index of the first vec4f of activation row t of the tile
//   tile_granule(tile, n)  index of the first granule of weight row n of the tile
//   tile_scale(tile, n)    index of its first scale

// What weights are multiplied by, so that f16 holds them: a power of two, and its inverse.
const WEIGHT_UP = 1u;
const WEIGHT_DOWN = 1.0 / f32(WEIGHT_UP);
const RUN_COLUMNS = 1024u;
const CHUNK_PIECES = CHUNK / PIECE_COLUMNS;
const GROUP_CHUNKS = SCALE_COLUMNS / CHUNK;
const RUN_GROUPS = RUN_COLUMNS / SCALE_COLUMNS;
// Vectors of activations, and pieces of one weight row, that an invocation stages of each chunk, and
// how many rows, and pieces, the workgroup stages side by side.
const STAGED_ROWS = WORKGROUP_SIZE / CHUNK_VECTORS;
const OWN_VECTORS = (TILE_ROWS + STAGED_ROWS - 1u) / STAGED_ROWS;
const STAGED_PIECES = WORKGROUP_SIZE / TILE_OUTPUTS;
const OWN_PIECES = (CHUNK_PIECES + STAGED_PIECES - 1u) / STAGED_PIECES;

const_assert SCALE_COLUMNS % CHUNK == 0u && CHUNK % PIECE_COLUMNS == 0u;
const_assert WORKGROUP_SIZE % CHUNK_VECTORS == 0u && WORKGROUP_SIZE % TILE_OUTPUTS == 0u;

// Where an invocation reads what it stages.
struct Own {
  vector: u32,
  // The first vector of each of its activation rows.
  rows: array<u32, OWN_VECTORS>,
  output: u32,
  piece: u32,
  granule: u32,
  scale: u32,
}

// Every invocation of the workgroup must call it, in uniform control flow.
fn matrix_sums(tile: Tile, lanes: Lanes) -> Sums {
  let leaves = tree_leaves();
  let own = own_places(tile, lanes.invocation);
  var total = Sums();
  var waiting = Waiting();
  for (var leaf = 0u; leaf < leaves; leaf++) {
    let end = first_group(leaf + 1u);
    total = Sums();
    for (var group = first_group(leaf); group < end; group += RUN_GROUPS) {
      sum_run(&total, own, group, min(group + RUN_GROUPS, end), lanes);
    }
    total = climb(&waiting, leaf, total);
  }
  return total;
}

fn own_places(tile: Tile, invocation: u32) -> Own {
  var own = Own();
  own.vector = invocation % CHUNK_VECTORS;
  for (var i = 0u; i < OWN_VECTORS; i++) {
    own.rows[i] = tile_x(tile, invocation / CHUNK_VECTORS + i * STAGED_ROWS);
  }
  own.output = invocation % TILE_OUTPUTS;
  own.piece = invocation / TILE_OUTPUTS;
  own.granule = tile_granule(tile, own.output);
  own.scale = tile_scale(tile, own.output);
  return own;
}

// Adds the sums of groups [first, end).
fn sum_run(total: ptr<function, Sums>, own: Own, first: u32, end: u32, lanes: Lanes) {
  let used = (params.columns + CHUNK - 1u) / CHUNK;
  let last = min(end * GROUP_CHUNKS, used);
  var sums = PanelProducts();
  for (var chunk = first * GROUP_CHUNKS; chunk < last; chunk++) {
    stage_rows(own, chunk, lanes.invocation);
    stage_weights(own, chunk);
    workgroupBarrier();
    multiply_panels(&sums, lanes);
    workgroupBarrier();
  }
  for (var turn = 0u; turn < TILE_ROWS / TURN_ROWS; turn++) {
    store_turn(&sums, turn, lanes);
    workgroupBarrier();
    for (var i = 0u; i < TURN_TOKENS; i++) {
      let t = turn * TURN_TOKENS + i;
      let sum = turn_product(turn_row(lanes.invocation, t), sum_output(lanes.invocation));
      (*total)[t] = fma(vec4f(WEIGHT_DOWN), sum, (*total)[t]);
    }
    workgroupBarrier();
  }
}

fn stage_rows(own: Own, chunk: u32, invocation: u32) {
  if (chunk + 1u) * CHUNK <= params.columns {
    stage_vectors(own, chunk, invocation, false);
  } else {
    stage_vectors(own, chunk, invocation, true);
  }
}

fn stage_vectors(own: Own, chunk: u32, invocation: u32, masks: bool) {
  let vector = chunk * CHUNK_VECTORS + own.vector;
  for (var i = 0u; i < OWN_VECTORS; i++) {
    let t = invocation / CHUNK_VECTORS + i * STAGED_ROWS;
    if TILE_ROWS % STAGED_ROWS == 0u || t < TILE_ROWS {
      var value = x_vector(own.rows[i] + vector);
      if masks { value = masked(value, vector); }
      stage_left(t * OPERAND_STRIDE + 4u * own.vector, value);
    }
  }
}

fn stage_weights(own: Own, chunk: u32) {
  let group = chunk / GROUP_CHUNKS;
  let word = scale_words(group, vec4u(own.scale)).x;
  let scale = f32(WEIGHT_UP) * scale_values(group, vec4u(word)).x;
  for (var i = 0u; i < OWN_PIECES; i++) {
    let p = own.piece + i * STAGED_PIECES;
    if CHUNK_PIECES % STAGED_PIECES == 0u || p < CHUNK_PIECES {
      let at = piece_at(vec4u(own.granule), chunk * CHUNK_PIECES + p).x;
      let numbers = decode(weights[at], word);
      let to = own.output * OPERAND_STRIDE + p * PIECE_COLUMNS;
      for (var v = 0u; v < PIECE_VECTORS; v++) {
        stage_weight(to + 4u * v, scale * numbers[v]);
      }
    }
  }
}
