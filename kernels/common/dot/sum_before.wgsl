// A scan over the invocations of a workgroup, in two levels. Needs WORKGROUP_SIZE.

const SCAN_BLOCK = 16u;

const_assert SCAN_BLOCK * SCAN_BLOCK == WORKGROUP_SIZE;

var<workgroup> scan_values: array<vec2u, WORKGROUP_SIZE>;
var<workgroup> scan_blocks: array<vec2u, SCAN_BLOCK>;

// The sum of the values of all earlier invocations. Uniform control flow; two barriers.
fn sum_before(invocation: u32, value: vec2u) -> vec2u {
  scan_values[invocation] = value;
  workgroupBarrier();
  if invocation < SCAN_BLOCK {
    var total = vec2u(0u);
    // Not from 0: compilers would write out all loads, and take long.
    let first = invocation * SCAN_BLOCK;
    for (var i = first; i < first + SCAN_BLOCK; i++) { total += scan_values[i]; }
    scan_blocks[invocation] = total;
  }
  workgroupBarrier();
  let block = invocation / SCAN_BLOCK;
  var before = vec2u(0u);
  for (var i = 0u; i < block; i++) { before += scan_blocks[i]; }
  for (var i = block * SCAN_BLOCK; i < invocation; i++) { before += scan_values[i]; }
  return before;
}
