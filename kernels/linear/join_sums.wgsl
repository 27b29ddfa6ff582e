// join_sums: out[r, out_column + n] = the sums of all parts of output n, by a binary tree, + bias[n]
//
//   sums  [ranks, rows, parts, stride]  f32  read
//   bias  [outputs]                     f32  read   if BIAS, else any buffer
//   out   [rows, out_stride]            f32  write
//
// Part i of rank k is leaf k * parts + i. The tree is the upper end of the one that
// dot_rows.wgsl adds segments by: the next power of two of leaves, zeros where there is no
// part. One invocation per output.

const WORKGROUP_SIZE = 64u;
const BIAS = false;
// Of the tree: 5 for up to 32 leaves.
const LEVELS = 5u;

struct Params {
  rows: u32,
  ranks: u32,
  parts: u32,
  outputs: u32,
  stride: u32,
  out_stride: u32,
  out_column: u32,
}

@group(0) @binding(0) var<storage, read> sums: array<f32>;
@group(0) @binding(1) var<storage, read> bias: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let n = group.x * WORKGROUP_SIZE + invocation;
  let r = group.y;
  if n >= params.outputs { return; }
  let count = params.ranks * params.parts;
  let leaves = 1u << firstLeadingBit(2u * count - 1u);
  var total = 0.0;
  var stack = array<f32, LEVELS>();
  for (var leaf = 0u; leaf < leaves; leaf++) {
    total = 0.0;
    if leaf < count {
      let row = (leaf / params.parts * params.rows + r) * params.parts + leaf % params.parts;
      total = sums[row * params.stride + n];
    }
    // A binary counter: a sum waits at its level until its right neighbour arrives.
    for (var level = 0u; level < LEVELS; level++) {
      let below = (1u << level) - 1u;
      if (leaf & below) == below {
        if (leaf & (1u << level)) == 0u {
          stack[level] = total;
        } else {
          total = stack[level] + total;
        }
      }
    }
  }
  if BIAS { total += bias[n]; }
  out[r * params.out_stride + params.out_column + n] = total;
}
