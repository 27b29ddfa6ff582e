// fill: word i of `out`, where i % period is in [first, end), becomes (hash(i) & keep) | pattern.
//
//   out  [words]  u32  write
//
// Every word follows from its place and the seed, so that the host can make any of them again.

const WORKGROUP_SIZE = 256u;

struct Params {
  words: u32,
  key: u32,
  keep: u32,
  pattern: u32,
  period: u32,
  first: u32,
  end: u32,
}

@group(0) @binding(0) var<storage, read_write> out: array<u32>;
@group(0) @binding(1) var<uniform> params: Params;

fn hash(index: u32) -> u32 {
  var x = index ^ params.key;
  x = (x ^ (x >> 16u)) * 0x21f0aaadu;
  x = (x ^ (x >> 15u)) * 0x735a2d97u;
  return x ^ (x >> 15u);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) invocation: u32,
) {
  let i = (group.y * groups.x + group.x) * WORKGROUP_SIZE + invocation;
  if i >= params.words { return; }
  let place = i % params.period;
  if place < params.first || place >= params.end { return; }
  out[i] = (hash(i) & params.keep) | params.pattern;
}
