// What a linear kernel writes: its sums as they are.

const ROUND_OUTPUTS = false;

fn finish_outputs(sums: Sums, valid: vec4<bool>, holds: bool) -> Sums {
  return sums;
}
