// mla_project: what cache/mla_write and the query projection after it do, in one launch
//
//   out[r, n]      = sum over k of q[r, k] * W[n, k], where q is the normed query latent
//   cache[slot(r)] = RMSNorm(latent part) * its weight, then the rotated rope part
//
//   x            [rows, x_stride]      f32      read   query latent, then the latent and the rope part
//   weights      [rows_padded, columns padded]  granules read  as weight_order.wgsl has them
//   scales       [rows_padded, groups]  words   read   of dtypes with scales, else unused
//   norm_weight  [...]                 f32      read   of the query, and from latent_norm on of the latent
//   rows         [rows]                vec4u    read   y = position, z = cache slot
//   rope_table   [positions, rope / 2] vec2f    read   cosine, sine
//   out          [rows, out_stride]    f32      write
//   cache        [slots, latent + rope] pairs   write  see the joined latent_write_*.wgsl
//
// A workgroup computes four outputs of TOKENS rows in each of its first invocations; of the
// workgroups of TOKENS rows, the last TOKENS write an entry each. Bits are those of the two kernels:
// norms of x_normed.wgsl, order of additions of dot_rows.wgsl. The latent begins and
// ends at a multiple of four, and so do rows.

const WORKGROUP_SIZE = 8u;
const WORKGROUP_OUTPUTS = 4u * ROW_LANES;
const ENTRY_LANES = WORKGROUP_SIZE;
const BIAS = false;
const bias = array<f32, 1>(0.0);

struct Params {
  rows: u32,
  outputs: u32,
  columns: u32,
  rows_padded: u32,
  segments: u32,
  x_stride: u32,
  out_stride: u32,
  latent_offset: u32,
  latent_norm: u32,
  latent: u32,
  rope_offset: u32,
  rope: u32,
  eps: f32,
}

@group(0) @binding(0) var<storage, read> x: array<XVector>;
@group(0) @binding(1) var<storage, read> weights: array<Piece>;
@group(0) @binding(2) var<storage, read> scales: array<u32>;
@group(0) @binding(3) var<storage, read> norm_weight: array<vec4f>;
@group(0) @binding(4) var<storage, read> rows: array<vec4u>;
@group(0) @binding(5) var<storage, read> rope_table: array<vec2f>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;
@group(0) @binding(7) var<storage, read_write> cache: array<CachePair>;
@group(0) @binding(8) var<uniform> params: Params;

struct Entry {
  row: vec4u,
  // The row's first vector of x.
  start: u32,
  scale: f32,
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let first_row = group.y * TOKENS;
  let groups = (params.outputs + WORKGROUP_OUTPUTS - 1u) / WORKGROUP_OUTPUTS;
  let entry_row = first_row + group.x - groups;
  let of_entry = group.x >= groups;
  if of_entry && entry_row >= params.rows { return; }
  var x_first = XRows();
  for (var t = 0u; t < TOKENS; t++) {
    let query_start = row_start(min(first_row + t, params.rows - 1u));
    x_first[t] = select(query_start, row_start(entry_row) + params.latent_offset / 4u, of_entry);
  }
  // Written once for both, because drivers that put functions in place compile each place.
  let columns = select(params.columns, params.latent, of_entry);
  add_squares(x_first, columns, invocation);
  workgroupBarrier();
  let scale = norm_scale(columns, select(invocation / ROW_SHARERS, 0u, of_entry));
  if of_entry {
    write_row(entry_row, scale, invocation);
    return;
  }
  let lane = row_lane(invocation) / LANES * (4u * LANES) + row_lane(invocation) % LANES;
  let output = vec4u(group.x * WORKGROUP_OUTPUTS + lane) + vec4u(0u, 1u, 2u, 3u) * LANES;
  let row = min(output, vec4u(params.outputs - 1u));
  let x_rows = norm_rows(x_first, scale, invocation);
  let sums = dot_rows(row_granules(row), first_scales(row), x_rows, invocation);
  if !holds_sums(invocation) { return; }
  for (var t = 0u; t < TOKENS; t++) {
    if first_row + t < params.rows { write_query(first_row + t, output, sums[t]); }
  }
}

// Index of the first vector of a row of x.
fn row_start(row: u32) -> u32 {
  return row * params.x_stride / 4u;
}

fn write_query(row: u32, output: vec4u, sums: vec4f) {
  for (var i = 0u; i < 4u; i++) {
    if output[i] < params.outputs { out[row * params.out_stride + output[i]] = sums[i]; }
  }
}

fn write_row(row: u32, scale: f32, invocation: u32) {
  let entry = Entry(rows[row], row_start(row), scale);
  find_largest(entry, invocation);
  workgroupBarrier();
  write_entry(entry, invocation);
}

fn latent_pair(entry: Entry, pair: u32) -> vec2f {
  let vector = pair / 2u;
  let value = x[entry.start + params.latent_offset / 4u + vector] * entry.scale
    * norm_weight[params.latent_norm / 4u + vector];
  return select(value.xy, value.zw, pair % 2u == 1u);
}

fn rope_pair(entry: Entry, pair: u32) -> vec2f {
  let column = params.rope_offset + 2u * pair;
  let vector = x[entry.start + column / 4u];
  let turn = rope_table[entry.row.y * (params.rope / 2u) + pair];
  return rotate(select(vector.xy, vector.zw, column % 4u == 2u), turn);
}
