// route_sort: what moe/route and then moe/sort make of few rows, in one launch
//
//   logits, bias, placement, chosen, weights, hits          as moe/route
//   sorted_pairs  [pairs]     u32    write  pair indices by expert; those of one expert ascend
//   tiles         [1 + tiles] vec4u  write  as moe/sort
//   grids         [grids]     vec4u  update y = number of tiles
//
// One workgroup in all, of TEAMS teams that route a row each, round by round. A row that picks an
// expert sets its bit among those of the expert: the bits before it are the pairs before its own.
//
// Source: as moe/route.

const MASK_WORDS = 640u;
const MAX_PHYSICAL = 384u;

struct Params {
  experts: u32,
  stride: u32,
  top_k: u32,
  groups: u32,
  kept_groups: u32,
  shared_first: u32,
  shared_count: u32,
  tables: u32,
  first_hit: u32,
  scaling: f32,
  rows: u32,
  row_words: u32,
  physical: u32,
  experts_each: u32,
  tile_size: u32,
  grids: u32,
}

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> bias: array<f32>;
@group(0) @binding(2) var<storage, read> placement: array<u32>;
@group(0) @binding(3) var<storage, read_write> chosen: array<u32>;
@group(0) @binding(4) var<storage, read_write> weights: array<f32>;
@group(0) @binding(5) var<storage, read_write> hits: array<atomic<u32>>;
@group(0) @binding(6) var<storage, read_write> sorted_pairs: array<u32>;
@group(0) @binding(7) var<storage, read_write> tiles: array<vec4u>;
@group(0) @binding(8) var<storage, read_write> grids: array<vec4u>;
@group(0) @binding(9) var<uniform> params: Params;

// A bit for each row that an expert has, `row_words` words an expert.
var<workgroup> expert_rows: array<atomic<u32>, MASK_WORDS>;
// Where the pairs of each expert begin.
var<workgroup> starts: array<u32, MAX_PHYSICAL>;

fn picked(row: u32, expert: u32) {
  atomicOr(&expert_rows[expert * params.row_words + row / 32u], 1u << (row % 32u));
}

// Pairs of an expert that are of rows below `end`.
fn pairs_before(expert: u32, end: u32) -> u32 {
  var count = 0u;
  for (var word = 0u; word <= end / 32u; word++) {
    if word == params.row_words { break; }
    var bits = atomicLoad(&expert_rows[expert * params.row_words + word]);
    if word == end / 32u { bits &= (1u << (end % 32u)) - 1u; }
    count += countOneBits(bits);
  }
  return count;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(local_invocation_index) invocation: u32) {
  for (var first = 0u; first < params.rows; first += TEAMS) {
    let row = first + invocation / TEAM;
    route_row(min(row, params.rows - 1u), invocation, row < params.rows);
  }
  storageBarrier();
  workgroupBarrier();

  // Experts that an invocation cuts in tiles.
  let first_expert = invocation * params.experts_each;
  let end_expert = min(first_expert + params.experts_each, params.physical);
  var sums = vec2u(0u);
  for (var e = first_expert; e < end_expert; e++) {
    let count = pairs_before(e, params.rows);
    sums += vec2u(count, (count + params.tile_size - 1u) / params.tile_size);
  }
  var next = sum_before(invocation, sums);
  for (var e = first_expert; e < end_expert; e++) {
    let count = pairs_before(e, params.rows);
    starts[e] = next.x;
    for (var done = 0u; done < count; done += params.tile_size) {
      next.y += 1u;
      tiles[next.y] = vec4u(e, next.x + done, min(params.tile_size, count - done), 0u);
    }
    next.x += count;
  }
  if invocation == WORKGROUP_SIZE - 1u {
    tiles[0] = vec4u(next.y, 0u, 0u, 0u);
    for (var i = 0u; i < params.grids; i++) { grids[i].y = next.y; }
  }
  workgroupBarrier();

  let slots = params.top_k + params.shared_count;
  for (var pair = invocation; pair < params.rows * slots; pair += WORKGROUP_SIZE) {
    let expert = chosen[pair];
    sorted_pairs[starts[expert] + pairs_before(expert, pair / slots)] = pair;
  }
}
