// Four weight rows times TOKENS activation rows: the one place that fixes the order of additions
// of every linear kernel (numeric class fma128), and what all forms of it share.
//
//   total   = sum of the segment sums, by a binary tree over the next power of two of segments
//   segment = sum over its groups of SCALE_COLUMNS columns, ascending, of scale * partial, by fma
//             from 0.0
//   partial = (c0 + c1) + (c2 + c3), where chain c adds the columns k = c mod 4 of the group,
//             ascending, by fma from 0.0
//
// A segment is a run of whole 128-column blocks: number s of S holds the blocks
// [floor(s * blocks / S), floor((s + 1) * blocks / S)). The order depends on `columns`, S and
// SCALE_COLUMNS alone, never on TOKENS, BLOCK_SPLIT or TOKEN_LANES.
//
// Needs weight_order.wgsl, one of the files dot_rows_*.wgsl and weights_*.wgsl, one of
// group_sums*.wgsl (but for dot_rows_staged.wgsl, which has its own), the bindings
// `weights: array<Piece>` (granules of 16 bytes) and `scales: array<u32>`, the fields `columns` and
// `segments` of `params`, and `x_vector(index)`, the vectors of the activation rows: those of
// x_plain.wgsl or the kernel's own. What it returns for columns at and beyond `columns` does not
// matter.

const TOKENS = 1u;
// Invocations next to one another with neighbouring weight rows.
const LANES = 8u;
// Invocations that share the groups of a weight row: dot_rows_split.wgsl, if there are several.
const BLOCK_SPLIT = 1u;
// Invocations that have the same weight rows, and TOKENS activation rows each:
// dot_rows_staged.wgsl, if there are several.
const TOKEN_LANES = 1u;
// Invocations of a workgroup with weight rows of their own: its first ones hold the sums.
const ROW_LANES = WORKGROUP_SIZE / (BLOCK_SPLIT * TOKEN_LANES);
// Levels of the tree: 5 for up to 32 segments; for one segment 1 is enough, and 0 in dot_rows_staged.wgsl.
const LEVELS = 1u;
const BLOCK_COLUMNS = 128u;
// Columns of a row of the residual stream whose squares have one sum: row_scale.wgsl.
const SQUARES_COLUMNS = 32u;
const GRANULE_BYTES = 16u;
// A granule is read in pieces of at most four vectors: more at once are slower to unpack.
const PIECES = GRANULE_BYTES / PIECE_BYTES;
const PIECE_COLUMNS = 4u * PIECE_VECTORS;
const BLOCK_GRANULES = BLOCK_COLUMNS / (PIECES * PIECE_COLUMNS);
const BLOCK_GROUPS = BLOCK_COLUMNS / SCALE_COLUMNS;
const GROUP_PIECES = SCALE_COLUMNS / PIECE_COLUMNS;

// With SKIPS the others of an invocation's activation rows than its first `wanted_tokens` are left
// out, by branches: their sums are anything.
const SKIPS = false;
var<private> wanted_tokens: u32 = TOKENS;

// One sum for each of the four weight rows, for each activation row.
alias Sums = array<vec4f, TOKENS>;
alias XRows = array<u32, TOKENS>;
// Activation rows whose sums an invocation brings into the tree.
const TREE_TOKENS = max(TOKENS / BLOCK_SPLIT, 1u);
alias TreeSums = array<vec4f, TREE_TOKENS>;
// Sums that wait for a right neighbour, one for each level of the tree.
alias Waiting = array<TreeSums, max(LEVELS, 1u)>;

const_assert ROW_LANES * BLOCK_SPLIT * TOKEN_LANES == WORKGROUP_SIZE && ROW_LANES % LANES == 0u;
const_assert BLOCK_SPLIT == 1u || TOKEN_LANES == 1u;

// Brings the sum of a segment into the tree, a binary counter: a sum waits at its level until its
// right neighbour arrives. Returns the sum of all that it completes.
fn climb(waiting: ptr<function, Waiting>, leaf: u32, segment: TreeSums) -> TreeSums {
  var total = segment;
  for (var level = 0u; level < LEVELS; level++) {
    let below = (1u << level) - 1u;
    if (leaf & below) == below {
      for (var t = 0u; t < TREE_TOKENS; t++) {
        if (leaf & (1u << level)) == 0u {
          (*waiting)[level][t] = total[t];
        } else {
          total[t] = (*waiting)[level][t] + total[t];
        }
      }
    }
  }
  return total;
}

// The segments and, up to a power of two, zeros.
fn tree_leaves() -> u32 {
  return 1u << firstLeadingBit(2u * params.segments - 1u);
}

fn group_count() -> u32 {
  return (params.columns + SCALE_COLUMNS - 1u) / SCALE_COLUMNS;
}

// The first group of a segment; of one behind the last, the number of groups.
fn first_group(segment: u32) -> u32 {
  let block = min(segment, params.segments) * column_blocks() / params.segments;
  return min(block * BLOCK_GROUPS, group_count());
}

fn is_wanted(t: u32) -> bool {
  return !SKIPS || t < wanted_tokens;
}

// Number of an invocation's four weight rows among those of its workgroup.
fn row_lane(invocation: u32) -> u32 {
  return invocation % ROW_LANES;
}

// Whether dot_rows() gives this invocation the sums; else it gives anything.
fn holds_sums(invocation: u32) -> bool {
  return invocation < ROW_LANES * TOKEN_LANES;
}

// The first of an invocation's TOKENS activation rows, of those that workgroups `tile` have.
fn first_token(tile: u32, invocation: u32) -> u32 {
  // Apart, so that a compiler sees that it is the same for the whole workgroup.
  if TOKEN_LANES == 1u { return tile * TOKENS; }
  return (tile * TOKEN_LANES + invocation / ROW_LANES) * TOKENS;
}

// Adds bias[row] to the sums of each activation row. Needs the constant and the binding BIAS, bias.
fn add_bias(sums: Sums, row: vec4u) -> Sums {
  if !BIAS { return sums; }
  var added = Sums();
  for (var t = 0u; t < TOKENS; t++) {
    added[t] = sums[t] + bias_of(row);
  }
  return added;
}

fn bias_of(row: vec4u) -> vec4f {
  return vec4f(bias[row.x], bias[row.y], bias[row.z], bias[row.w]);
}

fn join(chains: vec4f) -> f32 {
  return (chains.x + chains.y) + (chains.z + chains.w);
}

// Zero in place of what lies beyond the last column.
fn masked(value: vec4f, vector: u32) -> vec4f {
  let column = vec4u(4u * vector) + vec4u(0u, 1u, 2u, 3u);
  return select(vec4f(), value, column < vec4u(params.columns));
}
