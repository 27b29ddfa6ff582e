// pixel_shuffle: out[t, (dy * scale + dx) * cols + c] = x[(ty * scale + dy) * side + tx * scale + dx, c]
//
//   x    [side * side, cols]                f32  read   patches, row by row
//   out  [wide * wide, scale^2 * cols]      f32  write  squares of scale x scale patches
//
// wide = side / scale, rounded up: patches that the last squares lack are zeros. When UNFOLDS, columns
// are outermost: out[t, (c * scale + dy) * scale + dx]. One workgroup per patch; t = ty * wide + tx.
//
// Source: Shi et al., "Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel
// Convolutional Neural Network" (2016), whose step this undoes.

const WORKGROUP_SIZE = 64u;
const UNFOLDS = false;

struct Params {
  cols: u32,
  side: u32,
  scale: u32,
  wide: u32,
}

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let at = group.xy;
  let token = at / params.scale;
  let inner = at % params.scale;
  let squares = params.scale * params.scale;
  let row = token.y * params.wide + token.x;
  let place = inner.y * params.scale + inner.x;
  let is_there = all(at < vec2u(params.side));
  let patch_row = min(at.y * params.side + at.x, params.side * params.side - 1u);
  for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
    let column = select(place * params.cols + c, c * squares + place, UNFOLDS);
    out[row * squares * params.cols + column] = select(0.0, x[patch_row * params.cols + c], is_there);
  }
}
