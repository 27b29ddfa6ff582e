// dot_rows.wgsl for many activation rows: TOKEN_LANES invocations have the same four weight rows and
// TOKENS activation rows each. A workgroup decodes each of its weights once, into its own memory,
// puts its activation rows beside them, and multiplies from there, as staged_sums.wgsl does in f32
// and staged_sums_half.wgsl in f16.
//
// Every invocation of the workgroup must call dot_rows(), in uniform control flow. Needs one of the
// files top_level_*.wgsl.
//
// With 16 ROW_LANES (64 weight rows), 8 TOKEN_LANES of 4 TOKENS (32 activation rows) and BF16, a
// step of 32 columns reads 4 KiB of weights and 4 KiB of x from memory for 2 * 64 * 32 * 32 =
// 131,072 operations: 16 for a byte, 21 in FP8. Without workgroup memory 64 invocations of eight
// activation rows come to 7.5 and 14, and decode each weight four times as often. From workgroup
// memory an invocation reads eight vectors for 64 fma; of 32 invocations that run together 16 read
// the same vectors of x and two the same weights, so that its banks keep up with that. 4 x 4 sums
// take 64 registers for their chains and 16 for totals; 4 x 8 would take twice as many and leave a
// GPU half the workgroups to switch between. All of this is reasoned, and measured on no GPU.

const STAGE_BYTES = 15872u;
// What is staged, of how many bytes, and times which power of two weights are. A product with the
// inverse is exact, which WGSL does not promise of a quotient.
alias Staged = vec4f;
const VECTOR_BYTES = 16u;
const WEIGHT_UP = 1u;
const WEIGHT_DOWN = 1.0 / f32(WEIGHT_UP);
alias Chains = array<array<vec4f, 4>, TOKENS>;
const TILE_TOKENS = TOKENS * TOKEN_LANES;
// One vector more than there are rows, so that invocations that write neighbouring vectors of a row
// meet other banks.
const X_STRIDE = TILE_TOKENS + 1u;
// 32 columns at once where there is room for them, else 16: a granule's piece, at least.
const STAGED_BYTES_OF_8 = 8u * VECTOR_BYTES * (4u * ROW_LANES + X_STRIDE);
const STEP_VECTORS = select(4u, 8u, STAGED_BYTES_OF_8 <= STAGE_BYTES);
const STEP_PIECES = STEP_VECTORS / PIECE_VECTORS;
// Activation rows of an invocation that its ROW_LANES copy at once, a vector each.
const ROWS_AT_ONCE = min(TOKENS, ROW_LANES / STEP_VECTORS);
const COPIES = TOKENS / ROWS_AT_ONCE;
// Invocations with the same weight rows that decode the same one of the four.
const DECODERS = TOKEN_LANES / 4u;

const_assert TOKEN_LANES % 4u == 0u && SCALE_COLUMNS % (4u * STEP_VECTORS) == 0u;
const_assert STEP_VECTORS * VECTOR_BYTES * (4u * ROW_LANES + X_STRIDE) <= STAGE_BYTES;

// By vector of the step, number of the row among an invocation's four, and row lane. Arrays of arrays, so
// that a compiler bounds each index once, before the loop, and has one address for the four rows.
var<workgroup> staged_weights: array<array<array<Staged, ROW_LANES>, 4>, STEP_VECTORS>;
// The activation rows of a vector of the step.
struct StagedColumn {
  rows: array<array<Staged, TOKENS>, TOKEN_LANES>,
  apart: Staged,
}
var<workgroup> staged_x: array<StagedColumn, STEP_VECTORS>;

// What an invocation brings to every step.
struct Share {
  row_lane: u32,
  token_lane: u32,
  // First granule of the weight row that it decodes, one of its four.
  granule: u32,
  // Its first scale.
  scale: u32,
  // Where its first vector of each row that it copies lies.
  x_first: array<u32, COPIES>,
}

fn share_of(first_granule: vec4u, first_scale: vec4u, x_first: XRows, invocation: u32) -> Share {
  var mine = Share();
  mine.row_lane = row_lane(invocation);
  mine.token_lane = invocation / ROW_LANES;
  mine.granule = first_granule[mine.token_lane % 4u];
  mine.scale = first_scale[mine.token_lane % 4u];
  for (var t = 0u; t < TOKENS; t++) {
    if mine.row_lane / STEP_VECTORS % ROWS_AT_ONCE == t % ROWS_AT_ONCE {
      mine.x_first[t / ROWS_AT_ONCE] = x_first[t] + mine.row_lane % STEP_VECTORS;
    }
  }
  return mine;
}

// Decodes a weight row's share of the pieces from `first` on; word: of the group's scale.
fn stage_weights(mine: Share, first: u32, word: u32) {
  let row = mine.token_lane % 4u;
  for (var i = 0u; i < STEP_PIECES; i += DECODERS) {
    var piece = i;
    if DECODERS > 1u {
      piece += mine.token_lane / 4u;
      if piece >= STEP_PIECES { break; }
    }
    let decoded = decode(weights[piece_at(vec4u(mine.granule), first + piece).x], word);
    for (var v = 0u; v < PIECE_VECTORS; v++) {
      let staged = Staged(f32(WEIGHT_UP) * decoded[v]);
      staged_weights[piece * PIECE_VECTORS + v][row][mine.row_lane] = staged;
    }
  }
}

// Copies the vectors from `first` on.
fn stage_x(mine: Share, first: u32) {
  let row = mine.row_lane / STEP_VECTORS;
  if row >= ROWS_AT_ONCE { return; }
  let column = mine.row_lane % STEP_VECTORS;
  for (var i = 0u; i < COPIES; i++) {
    let value = masked(x_vector(mine.x_first[i] + first), first + column);
    staged_x[column].rows[mine.token_lane][row + i * ROWS_AT_ONCE] = Staged(value);
  }
}

// The partial sums of one group of columns, in the order that dot_rows.wgsl fixes.
fn group_sums(group: u32, mine: Share) -> Sums {
  var chains = Chains();
  let word = scale_words(group, vec4u(mine.scale)).x;
  let used = (params.columns + PIECE_COLUMNS - 1u) / PIECE_COLUMNS;
  let end = min((group + 1u) * GROUP_PIECES, used);
  for (var first = group * GROUP_PIECES; first < end; first += STEP_PIECES) {
    // All invocations are through with the step before.
    workgroupBarrier();
    stage_weights(mine, first, word);
    stage_x(mine, first * PIECE_VECTORS);
    workgroupBarrier();
    add_products(&chains, mine, min(STEP_PIECES, end - first) * PIECE_VECTORS);
  }
  var sums = Sums();
  for (var t = 0u; t < TOKENS; t++) {
    let c = chains[t];
    sums[t] = vec4f(join(c[0]), join(c[1]), join(c[2]), join(c[3])) * WEIGHT_DOWN;
  }
  return sums;
}

// The parameters of dot_rows_alone.wgsl; x_first is the same for those with the same activation rows.
fn dot_rows(first_granule: vec4u, first_scale: vec4u, x_first: XRows, invocation: u32) -> Sums {
  let mine = share_of(first_granule, first_scale, x_first, invocation);
  let leaves = tree_leaves();
  var total = Sums();
  var waiting = Waiting();
  for (var leaf = 0u; leaf < leaves; leaf++) {
    let end = first_group(leaf + 1u);
    total = Sums();
    for (var group = first_group(leaf); group < end; group++) {
      let partial = group_sums(group, mine);
      // Read now: the sums leave no registers to keep four scales in.
      let scale = scale_values(group, scale_words(group, first_scale));
      for (var t = 0u; t < TOKENS; t++) {
        total[t] = fma(scale, partial[t], total[t]);
      }
    }
    total = climb_top(invocation, leaf, climb(&waiting, leaf, total));
  }
  return total;
}
