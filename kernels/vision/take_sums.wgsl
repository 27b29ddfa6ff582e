// take_sums: out[i] = x[first + i] + addend[first + i]
//
//   x       [elements]  f32  read   the residual stream
//   addend  [elements]  f32  read   what is pending
//   out     [count]     f32  write
//
// Elements are those of whole rows; an invocation has one.

const WORKGROUP_SIZE = 64u;

struct Params {
  first: u32,
  count: u32,
}

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> addend: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if id.x < params.count {
    let at = params.first + id.x;
    out[id.x] = x[at] + addend[at];
  }
}
