// sample: ids[r] is drawn from softmax(logits[r, :] / temperature), cut to its best tokens
//
//   logits  [rows, stride]  f32   read   the first `vocabulary` of each row
//   draws   [rows]          Draw  read
//   ids     [rows]          u32   write
//
// Which tokens are kept, kept_tokens.wgsl says. Temperature 0 takes the best token. The random number
// is a hash of seed and position; the draw walks the kept tokens in index order.
//
// One workgroup per row.

const WORKGROUP_SIZE = 256u;
const BEST_BLOCK = 16u;

struct Params {
  vocabulary: u32,
  stride: u32,
}

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> draws: array<Draw>;
@group(0) @binding(2) var<storage, read_write> ids: array<u32>;
@group(0) @binding(3) var<uniform> params: Params;

const_assert BEST_BLOCK * BEST_BLOCK == WORKGROUP_SIZE;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let draw = draws[group.x];
  let best = best_of_row(invocation, group.x * params.stride);
  let largest = logits[group.x * params.stride + best.y];
  let kept = find_kept(invocation, group.x, largest, draw);
  if invocation == 0u {
    let mass = settle_runs(kept, draw);
    choose_run(scale64(mass, philox(draw.seed, draw.position, TOKEN_STREAM)));
  }
  workgroupBarrier();

  if owner == NOBODY && invocation == 0u { ids[group.x] = best.y; }
  if invocation == owner { ids[group.x] = token_of_run(group.x, kept, draw); }
}
