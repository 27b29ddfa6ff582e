// pixel_shuffle: out[t, (dy * scale + dx) * cols + c] = x[(ty * scale + dy) * side + tx * scale + dx, c]
//
//   x    [side * side, cols]                        f32  read   patches, row by row
//   out  [side * side / scale^2, scale^2 * cols]    f32  write  squares of scale x scale patches
//
// One workgroup per patch; t = ty * side / scale + tx.
//
// Source: Shi et al., "Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel
// Convolutional Neural Network" (2016), whose step this undoes.

const WORKGROUP_SIZE = 64u;

struct Params {
  cols: u32,
  side: u32,
  scale: u32,
}

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let at = vec2u(group.x % params.side, group.x / params.side);
  let token = at / params.scale;
  let inner = at % params.scale;
  let row = token.y * (params.side / params.scale) + token.x;
  let place = row * params.scale * params.scale + inner.y * params.scale + inner.x;
  for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
    out[place * params.cols + c] = x[group.x * params.cols + c];
  }
}
