// One sum over a workgroup, the same bits in every invocation. Needs WORKGROUP_SIZE, a multiple
// of 4. One barrier: a tree would need log2(WORKGROUP_SIZE) of them, which costs more than the
// serial adds on software adapters and no less on a GPU.

var<workgroup> row_sum_values: array<f32, WORKGROUP_SIZE>;

// Call once per launch, in uniform control flow.
fn row_sum(invocation: u32, value: f32) -> f32 {
  row_sum_values[invocation] = value;
  workgroupBarrier();
  var sums = vec4f(0.0);
  for (var i = 0u; i < WORKGROUP_SIZE; i += 4u) {
    sums += vec4f(
      row_sum_values[i],
      row_sum_values[i + 1u],
      row_sum_values[i + 2u],
      row_sum_values[i + 3u],
    );
  }
  return (sums.x + sums.y) + (sums.z + sums.w);
}
