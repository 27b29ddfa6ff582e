// How the invocations of attention_split.wgsl learn of each other's values, where the workgroup is
// one subgroup: in registers, without a barrier. A kernel without barriers and workgroup memory is
// one that drivers for CPUs run much faster.

fn highest(tops: array<f32, QUERIES>, lane: u32) -> array<f32, QUERIES> {
  var all = tops;
  for (var i = 0u; i < QUERIES; i++) { all[i] = subgroupMax(tops[i]); }
  return all;
}

fn added_up(sums: array<f32, QUERIES>, lane: u32) -> array<f32, QUERIES> {
  var all = sums;
  for (var half = LANES / 2u; half > 0u; half /= 2u) {
    for (var i = 0u; i < QUERIES; i++) { all[i] += subgroupShuffleXor(all[i], half); }
  }
  return all;
}

fn publish(rounds: u32, lane: u32) {
}

fn query_of(asked: Queries, query: u32, quad: u32, turned: bool, reader: u32, mine: vec4f) -> vec4f {
  return subgroupShuffle(mine, reader);
}

fn weights_of(four: u32, query: u32, owner: u32, mine: vec4f) -> vec4f {
  return subgroupShuffle(mine, owner);
}

fn entries_of(four: u32, owner: u32, mine: vec4u) -> vec4u {
  return subgroupShuffle(mine, owner);
}

fn scales_of(four: u32, run: u32, owner: u32, mine: vec4f) -> vec4f {
  return subgroupShuffle(mine, owner);
}
