// merge_splits: merges the splits that attention/gqa_decode or mla_decode left, in the order of
// merged_splits.wgsl
//
//   partials  [rows, max_splits, heads]  f32    read   records m, l, acc[head_dim]
//   rows      [rows]                     vec4u  read   y = position: it says which splits there are
//   sinks     [heads]                    f32    read   when has_sinks
//   out       [rows, out_stride]         f32    write  rounded to E4M3 when ROUND
//
// Grid (LANES elements of a row, row). Every invocation walks the splits by itself. Those of a
// workgroup are one group of the rounding.
//
// Source: Dao et al., "Flash-Decoding" (2023).

const LANES = 64u;
const ROUND = false;

const_assert !ROUND || LANES == GROUP_COLUMNS;

alias Elements = f32;

struct Params {
  heads: u32,
  head_dim: u32,
  out_stride: u32,
  split_length: u32,
  max_splits: u32,
  window: u32,
  has_sinks: u32,
}

@group(0) @binding(0) var<storage, read> partials: array<f32>;
@group(0) @binding(1) var<storage, read> rows: array<vec4u>;
@group(0) @binding(2) var<storage, read> sinks: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;

// Bits of the largest magnitude, ordered as the numbers are.
var<workgroup> largest: atomic<u32>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let row = group.y;
  let index = group.x * LANES + lane;
  let is_there = index < params.heads * params.head_dim;
  var value = 0.0;
  if is_there { value = merged_element(row, index); }
  if ROUND {
    atomicMax(&largest, bitcast<u32>(abs(value)));
    workgroupBarrier();
    let scale = group_scale(bitcast<f32>(atomicLoad(&largest)));
    value = round_e4m3(value / scale) * scale;
  }
  if is_there { out[row * params.out_stride + index] = value; }
}

fn merged_element(row: u32, index: u32) -> f32 {
  let head = index / params.head_dim;
  let column = index % params.head_dim;

  let seen = rows[row].y + 1u;
  let first = (seen - min(seen, params.window)) / params.split_length;
  let end = (seen + params.split_length - 1u) / params.split_length;
  let stride = params.heads * (2u + params.head_dim);
  let record = (row * params.max_splits + first) * stride + head * (2u + params.head_dim);
  let whole = merged(record, stride, end - first, column);
  return whole.acc / divisor(whole.m, whole.l, head);
}

fn record_word(at: u32) -> f32 {
  return partials[at];
}

fn record_elements(at: u32) -> f32 {
  return partials[at];
}
