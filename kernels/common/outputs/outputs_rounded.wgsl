// What a linear kernel writes: its sums rounded to E4M3, each 128 outputs of a row with a scale of
// their own. The outputs of a workgroup are one such group. Needs quantize_e4m3.wgsl.

const ROUND_OUTPUTS = true;

const_assert WORKGROUP_OUTPUTS == GROUP_COLUMNS;

// Bits of the largest magnitude of each row's outputs, ordered as the numbers are.
var<workgroup> largest: array<atomic<u32>, TOKENS>;

// valid: which of the sums are outputs at all; holds: whether this invocation has sums of its own.
fn finish_outputs(sums: Sums, valid: vec4<bool>, holds: bool) -> Sums {
  for (var t = 0u; t < TOKENS; t++) {
    let magnitude = select(vec4f(), abs(sums[t]), valid);
    let most = max(max(magnitude.x, magnitude.y), max(magnitude.z, magnitude.w));
    if holds { atomicMax(&largest[t], bitcast<u32>(most)); }
  }
  workgroupBarrier();
  var rounded = Sums();
  for (var t = 0u; t < TOKENS; t++) {
    rounded[t] = round_vector(sums[t], group_scale(bitcast<f32>(atomicLoad(&largest[t]))));
  }
  return rounded;
}
