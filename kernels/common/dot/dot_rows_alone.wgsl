// dot_rows.wgsl where an invocation adds all groups of its weight rows.

// first_granule: index of the first granule of each weight row; first_scale: of its first scale;
// x_first: index of the first vec4f of each activation row, the same for the whole workgroup;
// invocation: index in the workgroup, for the form of group_sums that shares loads.
fn dot_rows(first_granule: vec4u, first_scale: vec4u, x_first: XRows, invocation: u32) -> Sums {
  let leaves = tree_leaves();
  var total = Sums();
  var waiting = Waiting();
  for (var leaf = 0u; leaf < leaves; leaf++) {
    let end = first_group(leaf + 1u);
    total = Sums();
    for (var group = first_group(leaf); group < end; group++) {
      let words = scale_words(group, first_scale);
      let partial = group_sums(group, first_granule, words, x_first, invocation);
      let scale = scale_values(group, words);
      for (var t = 0u; t < TOKENS; t++) {
        total[t] = fma(scale, partial[t], total[t]);
      }
    }
    total = climb(&waiting, leaf, total);
  }
  return total;
}
