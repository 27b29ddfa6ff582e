// Four sums in f16, as loops of group_sums_half.wgsl keep them: as they are.

alias KeptHalves = vec4<f16>;

fn kept_of(sums: vec4<f16>) -> KeptHalves {
  return sums;
}

fn halves_of(kept: KeptHalves) -> vec4<f16> {
  return kept;
}
