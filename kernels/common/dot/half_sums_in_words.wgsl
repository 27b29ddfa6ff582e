// Four sums in f16, as loops of group_sums_half.wgsl keep them: in two words, as compilers keep a register
// for each half of what a loop goes on with. Not every compiler of WGSL takes halves for words.

alias KeptHalves = vec2u;

fn kept_of(sums: vec4<f16>) -> KeptHalves {
  return bitcast<vec2u>(sums);
}

fn halves_of(kept: KeptHalves) -> vec4<f16> {
  return bitcast<vec4<f16>>(kept);
}
