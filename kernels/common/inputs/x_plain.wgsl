// What a linear kernel multiplies: the vectors of its binding `x` as they are.

alias XVector = vec4f;

fn x_vector(index: u32) -> vec4f {
  return x[index];
}
