// What a query's weighted sum is divided by. A sink's logit joins here only, so it changes neither
// scores nor weights. Uses the kernel's binding `sinks` and its `params.has_sinks`.

fn divisor(m: f32, l: f32, head: u32) -> f32 {
  if params.has_sinks == 0u { return l; }
  return l + exp(sinks[head] - m);
}
