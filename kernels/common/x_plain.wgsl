// What a linear kernel multiplies: the vectors of its binding `x` as they are.

alias XVector = vec4f;

fn x_vector(index: u32) -> vec4f {
  return x[index];
}

/// The rows that start at these vectors, as x_vector() wants them; see x_normed.wgsl.
fn begin_rows(first: XRows, invocation: u32) -> XRows {
  return first;
}
