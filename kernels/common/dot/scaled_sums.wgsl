// The sums of rows, each scaled as its row is still to be, and the bias on top. Needs row_scale(), of
// row_scale.wgsl or the kernel's own.

// x_first: index of the first vector of each activation row.
fn scaled_sums(sums: Sums, row: vec4u, x_first: XRows, invocation: u32) -> Sums {
  if !holds_sums(invocation) { return sums; }
  var scaled = Sums();
  for (var t = 0u; t < TOKENS; t++) {
    if !is_wanted(t) { continue; }
    let scale = row_scale(x_first[t]);
    if BIAS {
      // One rounding, whatever a compiler makes of it.
      scaled[t] = fma(sums[t], vec4f(scale), bias_of(row));
    } else {
      scaled[t] = sums[t] * scale;
    }
  }
  return scaled;
}
