// rotate_patches: turns each query and key of a row by the angles of its patch
//
//   (q[r, h, d], q[r, h, d + HALF]) = the pair turned by the angle of row r and pair d, and so keys
//
//   qkv    [rows, stride]   f32    read and written   vectors of both, from the first column on
//   turns  [rows, HALF]     vec2f  read               cosine, sine
//
// One workgroup per row; an invocation has a pair at a time.
//
// Source: Su et al., "RoFormer" (2021); Wang et al., "Qwen2-VL" (2024), in two dimensions.

const WORKGROUP_SIZE = 64u;

struct Params {
  stride: u32,
  vectors: u32,
  half_dim: u32,
}

@group(0) @binding(0) var<storage, read_write> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> turns: array<vec2f>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let half_dim = params.half_dim;
  for (var i = invocation; i < params.vectors * half_dim; i += WORKGROUP_SIZE) {
    let d = i % half_dim;
    let near = group.x * params.stride + (i / half_dim) * 2u * half_dim + d;
    let far = near + half_dim;
    let turned = rotate(vec2f(qkv[near], qkv[far]), turns[group.x * half_dim + d]);
    qkv[near] = turned.x;
    qkv[far] = turned.y;
  }
}
