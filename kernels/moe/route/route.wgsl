// route: picks `top_k` experts for every row of router logits and weighs them
//
//   logits     [rows, stride]   f32  read
//   bias       [experts]        f32  read   BIAS: added to the score for the choice only
//   placement  [tables, experts] u32 read   logical expert -> physical expert
//   chosen     [rows, slots]    u32  write  physical experts, best first, then the shared ones
//   weights    [rows, slots]    f32  write  score without bias (NORMALIZE: over their sum) times
//                                           `scaling`; 1 for shared experts
//   hits       [..]             u32  add    first the number of rows whose picks count; from `first_hit`
//                                           on how often each logical expert was picked
//
// score = SIGMOID or SOFTMAX of the logits. With GROUP_BY_* only the experts of the `kept_groups`
// best of `groups` groups stand; a group's worth is its best choice or the sum of its two best.
// Ties go to the lowest index. One workgroup per row: route_row.wgsl.
//
// Source: DeepSeek-V3 technical report (2024), section 2.1.2; DeepSeek-V2 (2024), section 2.2.

struct Params {
  experts: u32,
  stride: u32,
  top_k: u32,
  groups: u32,
  kept_groups: u32,
  shared_first: u32,
  shared_count: u32,
  tables: u32,
  first_hit: u32,
  scaling: f32,
}

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> bias: array<f32>;
@group(0) @binding(2) var<storage, read> placement: array<u32>;
@group(0) @binding(3) var<storage, read_write> chosen: array<u32>;
@group(0) @binding(4) var<storage, read_write> weights: array<f32>;
@group(0) @binding(5) var<storage, read_write> hits: array<atomic<u32>>;
@group(0) @binding(6) var<uniform> params: Params;

fn picked(row: u32, expert: u32) {}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  route_row(group.x, invocation, true);
}
