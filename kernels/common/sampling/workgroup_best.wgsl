// The best (key, index) of a workgroup, the same in every invocation. Needs ordered_bits.wgsl,
// WORKGROUP_SIZE and BEST_BLOCK, with WORKGROUP_SIZE = BEST_BLOCK * BEST_BLOCK.

var<workgroup> best_values: array<vec2u, WORKGROUP_SIZE>;
var<workgroup> best_blocks: array<vec2u, BEST_BLOCK>;

// Larger keys first, then lower indices. Uniform control flow; two barriers; once per launch.
fn workgroup_best(invocation: u32, candidate: vec2u) -> vec2u {
  best_values[invocation] = candidate;
  workgroupBarrier();
  if invocation < BEST_BLOCK {
    var best = best_values[invocation * BEST_BLOCK];
    for (var i = 1u; i < BEST_BLOCK; i++) {
      best = better_of(best, best_values[invocation * BEST_BLOCK + i]);
    }
    best_blocks[invocation] = best;
  }
  workgroupBarrier();
  var best = best_blocks[0];
  for (var i = 1u; i < BEST_BLOCK; i++) { best = better_of(best, best_blocks[i]); }
  return best;
}
