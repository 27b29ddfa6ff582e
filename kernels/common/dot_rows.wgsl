// Four weight rows times TOKENS activation rows: the one place that fixes the order of additions
// of every linear kernel (numeric class fma128).
//
//   total   = sum of the segment sums, by a binary tree over the next power of two of segments
//   segment = sum over its 128-column blocks, ascending, of scale * partial, by fma from 0.0
//   partial = (c0 + c1) + (c2 + c3), where chain c adds the columns k = c mod 4 of the block,
//             ascending, by fma from 0.0
//
// Segment s of S holds the blocks [floor(s * blocks / S), floor((s + 1) * blocks / S)). The order
// depends on `columns` and S alone, never on TOKENS.
//
// Needs one of the files weights_*.wgsl, the bindings `weights: array<vec4u>` (granules of 16
// bytes, interleaved over LANES rows) and `x: array<vec4f>`, the fields `columns` and `segments`
// of `params`. The columns of `x` at and beyond `columns` may hold anything.

const TOKENS = 1u;
// Rows whose granules lie side by side.
const LANES = 8u;
// Levels of the tree: 5 for up to 32 segments; 1 is enough for one segment.
const LEVELS = 1u;
const BLOCK_COLUMNS = 128u;
const GRANULE_COLUMNS = 4u * GRANULE_VECTORS;
const BLOCK_GRANULES = BLOCK_COLUMNS / GRANULE_COLUMNS;

// One sum for each of the four weight rows, for each activation row.
alias Sums = array<vec4f, TOKENS>;
alias XRows = array<u32, TOKENS>;

// first_granule: index of the first granule of each weight row; row: index of its first scale;
// x_first: index of the first vec4f of each activation row.
fn dot_rows(first_granule: vec4u, row: vec4u, x_first: XRows) -> Sums {
  let blocks = (params.columns + BLOCK_COLUMNS - 1u) / BLOCK_COLUMNS;
  let leaves = 1u << firstLeadingBit(2u * params.segments - 1u);
  var total = Sums();
  var stack = array<Sums, LEVELS>();
  for (var leaf = 0u; leaf < leaves; leaf++) {
    let end = min(leaf + 1u, params.segments) * blocks / params.segments;
    total = Sums();
    for (var block = min(leaf, params.segments) * blocks / params.segments; block < end; block++) {
      let partial = block_sums(block, first_granule, x_first);
      let scale = block_scale(block, row);
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

fn block_sums(block: u32, first_granule: vec4u, x_first: XRows) -> Sums {
  var chains = array<array<vec4f, 4>, TOKENS>();
  let used = (params.columns + GRANULE_COLUMNS - 1u) / GRANULE_COLUMNS;
  let end = min((block + 1u) * BLOCK_GRANULES, used);
  for (var g = block * BLOCK_GRANULES; g < end; g++) {
    let at = first_granule + vec4u(g * LANES);
    let w0 = decode(weights[at.x]);
    let w1 = decode(weights[at.y]);
    let w2 = decode(weights[at.z]);
    let w3 = decode(weights[at.w]);
    for (var t = 0u; t < TOKENS; t++) {
      for (var v = 0u; v < GRANULE_VECTORS; v++) {
        let vector = g * GRANULE_VECTORS + v;
        let column = vec4u(4u * vector) + vec4u(0u, 1u, 2u, 3u);
        let xv = select(vec4f(), x[x_first[t] + vector], column < vec4u(params.columns));
        chains[t][0] = fma(w0[v], xv, chains[t][0]);
        chains[t][1] = fma(w1[v], xv, chains[t][1]);
        chains[t][2] = fma(w2[v], xv, chains[t][2]);
        chains[t][3] = fma(w3[v], xv, chains[t][3]);
      }
    }
  }
  var sums = Sums();
  for (var t = 0u; t < TOKENS; t++) {
    let c = chains[t];
    sums[t] = vec4f(join(c[0]), join(c[1]), join(c[2]), join(c[3]));
  }
  return sums;
}

fn join(chains: vec4f) -> f32 {
  return (chains.x + chains.y) + (chains.z + chains.w);
}

// Index of the first granule of a weight row of `columns` columns.
fn row_granule(row: u32) -> u32 {
  let blocks = (params.columns + BLOCK_COLUMNS - 1u) / BLOCK_COLUMNS;
  return row / LANES * (blocks * BLOCK_GRANULES * LANES) + row % LANES;
}
