// A level above LEVELS for the tree of dot_rows_staged.wgsl: the sums of its left half wait where
// write_normed.wgsl puts the outputs that they become, which leaves registers to others. No invocation
// uses the places of another before its outputs are there.

// As climb() of dot_rows.wgsl.
fn climb_top(invocation: u32, leaf: u32, sums: Sums) -> Sums {
  let below = (1u << LEVELS) - 1u;
  if (leaf & below) != below { return sums; }
  let is_left = (leaf & (1u << LEVELS)) == 0u;
  let lane = row_lane(invocation);
  let column = lane / LANES * (4u * LANES) + lane % LANES;
  var total = sums;
  for (var t = 0u; t < TOKENS; t++) {
    let first = (invocation / ROW_LANES * TOKENS + t) * WORKGROUP_OUTPUTS + column;
    for (var i = 0u; i < 4u; i++) {
      let at = first + i * LANES;
      if is_left {
        stream_values[at] = sums[t][i];
      } else {
        total[t][i] = stream_values[at] + sums[t][i];
      }
    }
  }
  return total;
}
