// The best of one row of logits. Needs workgroup_best.wgsl, the binding `logits: array<f32>` and
// `params.vocabulary`.

// (key, index) of those that an invocation looks at; `row` is the index of the row's first logit.
fn own_best_of_row(invocation: u32, row: u32) -> vec2u {
  var best = vec2u(0u, invocation);
  for (var i = invocation; i < params.vocabulary; i += WORKGROUP_SIZE) {
    best = better_of(best, vec2u(ordered_bits(logits[row + i]), i));
  }
  return best;
}

// (key, index), the same in every invocation.
fn best_of_row(invocation: u32, row: u32) -> vec2u {
  return workgroup_best(invocation, own_best_of_row(invocation, row));
}
