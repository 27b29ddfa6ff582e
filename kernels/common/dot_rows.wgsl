// Four weight rows times TOKENS activation rows: the one place that fixes the order of additions
// of every linear kernel (numeric class fma128).
//
//   total   = sum of the segment sums, by a binary tree over the next power of two of segments
//   segment = sum over its groups of SCALE_COLUMNS columns, ascending, of scale * partial, by fma
//             from 0.0
//   partial = (c0 + c1) + (c2 + c3), where chain c adds the columns k = c mod 4 of the group,
//             ascending, by fma from 0.0
//
// A segment is a run of whole 128-column blocks: number s of S holds the blocks
// [floor(s * blocks / S), floor((s + 1) * blocks / S)). The order depends on `columns`, S and
// SCALE_COLUMNS alone, never on TOKENS.
//
// Needs one of the files weights_*.wgsl, one of group_sums*.wgsl, the bindings
// `weights: array<Piece>` (granules of 16 bytes, interleaved over LANES rows) and
// `scales: array<u32>`, the fields `columns` and `segments` of `params`, and `x_vector(index)`, the
// vectors of the activation rows: those of x_plain.wgsl or the kernel's own. What it returns for
// columns at and beyond `columns` does not matter.

const TOKENS = 1u;
// Rows whose granules lie side by side.
const LANES = 8u;
// Levels of the tree: 5 for up to 32 segments; 1 is enough for one segment.
const LEVELS = 1u;
const BLOCK_COLUMNS = 128u;
const GRANULE_BYTES = 16u;
// A granule is read in pieces of at most four vectors: more at once are slower to unpack.
const PIECES = GRANULE_BYTES / PIECE_BYTES;
const PIECE_COLUMNS = 4u * PIECE_VECTORS;
const BLOCK_GRANULES = BLOCK_COLUMNS / (PIECES * PIECE_COLUMNS);
const BLOCK_GROUPS = BLOCK_COLUMNS / SCALE_COLUMNS;
const GROUP_PIECES = SCALE_COLUMNS / PIECE_COLUMNS;

// One sum for each of the four weight rows, for each activation row.
alias Sums = array<vec4f, TOKENS>;
alias XRows = array<u32, TOKENS>;

// first_granule: index of the first granule of each weight row; row: index of its first scale;
// x_first: index of the first vec4f of each activation row, the same for the whole workgroup;
// invocation: index in the workgroup, for the form of group_sums that shares loads.
fn dot_rows(first_granule: vec4u, row: vec4u, x_first: XRows, invocation: u32) -> Sums {
  let blocks = (params.columns + BLOCK_COLUMNS - 1u) / BLOCK_COLUMNS;
  let groups = (params.columns + SCALE_COLUMNS - 1u) / SCALE_COLUMNS;
  let leaves = 1u << firstLeadingBit(2u * params.segments - 1u);
  var total = Sums();
  var stack = array<Sums, LEVELS>();
  for (var leaf = 0u; leaf < leaves; leaf++) {
    let end = min(first_block(leaf + 1u, blocks) * BLOCK_GROUPS, groups);
    total = Sums();
    for (var group = first_block(leaf, blocks) * BLOCK_GROUPS; group < end; group++) {
      let words = scale_words(group, row);
      let partial = group_sums(group, first_granule, words, x_first, invocation);
      let scale = scale_values(group, words);
      for (var t = 0u; t < TOKENS; t++) {
        total[t] = fma(scale, partial[t], total[t]);
      }
    }
    // A binary counter: a sum waits at its level until its right neighbour arrives.
    for (var level = 0u; level < LEVELS; level++) {
      let below = (1u << level) - 1u;
      if (leaf & below) == below {
        for (var t = 0u; t < TOKENS; t++) {
          if (leaf & (1u << level)) == 0u {
            stack[level][t] = total[t];
          } else {
            total[t] = stack[level][t] + total[t];
          }
        }
      }
    }
  }
  return total;
}

// Adds bias[row] to the sums of each activation row. Needs the constant and the binding BIAS, bias.
fn add_bias(sums: Sums, row: vec4u) -> Sums {
  if !BIAS { return sums; }
  let addend = vec4f(bias[row.x], bias[row.y], bias[row.z], bias[row.w]);
  var added = Sums();
  for (var t = 0u; t < TOKENS; t++) {
    added[t] = sums[t] + addend;
  }
  return added;
}

// Index of a piece of each weight row, which is one of the row's granule piece / PIECES.
fn piece_at(first_granule: vec4u, piece: u32) -> vec4u {
  return (first_granule + vec4u(piece / PIECES * LANES)) * PIECES + vec4u(piece % PIECES);
}

fn first_block(segment: u32, blocks: u32) -> u32 {
  return min(segment, params.segments) * blocks / params.segments;
}

// Index of the first granule of a weight row of `columns` columns.
fn row_granule(row: u32) -> u32 {
  let blocks = (params.columns + BLOCK_COLUMNS - 1u) / BLOCK_COLUMNS;
  return row / LANES * (blocks * BLOCK_GRANULES * LANES) + row % LANES;
}

fn row_granules(row: vec4u) -> vec4u {
  return vec4u(row_granule(row.x), row_granule(row.y), row_granule(row.z), row_granule(row.w));
}

fn join(chains: vec4f) -> f32 {
  return (chains.x + chains.y) + (chains.z + chains.w);
}

// Zero in place of what lies beyond the last column.
fn masked(value: vec4f, vector: u32) -> vec4f {
  let column = vec4u(4u * vector) + vec4u(0u, 1u, 2u, 3u);
  return select(vec4f(), value, column < vec4u(params.columns));
}
