// packed_dots: sums[i] = the products of the four signed bytes of left[i] and of right[i], added up
//
//   left   [64]  u32  read
//   right  [64]  u32  read
//   sums   [64]  i32  write

struct Params {
  count: u32,
}

@group(0) @binding(0) var<storage, read> left: array<u32>;
@group(0) @binding(1) var<storage, read> right: array<u32>;
@group(0) @binding(2) var<storage, read_write> sums: array<i32>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) invocation: u32) {
  if invocation >= params.count { return; }
  sums[invocation] = dot4I8Packed(left[invocation], right[invocation]);
}
