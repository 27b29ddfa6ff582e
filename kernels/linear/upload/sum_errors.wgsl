// sum_errors: errors[index] += partials[0] + partials[1] + ...
//
//   partials  [count]    vec2f  read        sums of squared errors, of squares
//   errors    [tensors]  vec2f  read and write
//
// One workgroup; invocation i adds the partials i, i + WORKGROUP_SIZE and so on, and the first
// invocation adds those sums in order: the same launches give the same bits.

const WORKGROUP_SIZE = 64u;

struct Params {
  count: u32,
  index: u32,
}

@group(0) @binding(0) var<storage, read> partials: array<vec2f>;
@group(0) @binding(1) var<storage, read_write> errors: array<vec2f>;
@group(0) @binding(2) var<uniform> params: Params;

var<workgroup> sums: array<vec2f, WORKGROUP_SIZE>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(local_invocation_index) invocation: u32) {
  var sum = vec2f(0.0);
  for (var i = invocation; i < params.count; i += WORKGROUP_SIZE) { sum += partials[i]; }
  sums[invocation] = sum;
  workgroupBarrier();
  if invocation == 0u {
    for (var i = 1u; i < WORKGROUP_SIZE; i++) { sum += sums[i]; }
    errors[params.index] += sum;
  }
}
