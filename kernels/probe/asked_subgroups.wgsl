// asked_subgroups: what the invocations of a workgroup that is one subgroup tell each other
//
//   values  [32]     f32  read
//   told    [32, 3]  f32  write  the largest of all; that of the lane `params.step` up, around the end;
//                                that whose number differs in the bits of `params.step`
//
// LANES invocations, one workgroup.

enable subgroups;

const LANES = 8u;

struct Params {
  step: u32,
}

@group(0) @binding(0) var<storage, read> values: array<f32>;
@group(0) @binding(1) var<storage, read_write> told: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(LANES)
fn main(@builtin(local_invocation_index) lane: u32) {
  let own = values[lane];
  told[3u * lane] = subgroupMax(own);
  told[3u * lane + 1u] = subgroupShuffle(own, (lane + params.step) % LANES);
  told[3u * lane + 2u] = subgroupShuffleXor(own, params.step);
}
