// What a linear kernel multiplies: the vectors of its binding `x` as they are.

fn x_vector(index: u32) -> vec4f {
  return x[index];
}
