// mla_write: what a layer does between its first projections and its attention
//
//   q_out[r, :]    = RMSNorm(query part of a[r, :]) * q_weight, rounded to E4M3 when QUANTIZE
//   cache[slot(r)] = RMSNorm(latent part) * kv_weight, then the rotated rope part
//
//   a           [rows, a_stride]          f32    read   the parts start at the *_offset columns
//   q_weight    [query_width]             f32    read
//   kv_weight   [latent]                  f32    read
//   rows        [rows]                    vec4u  read   y = position, z = cache slot
//   rope_table  [positions, rope / 2]     vec2f  read   cosine, sine
//   q_out       [rows, q_stride]          f32    write  the first query_width of each row
//   cache       [slots, latent + rope]    pairs  write  see the joined latent_write_*.wgsl
//
// One workgroup per row: its first half norms the query, its second half the latent. The squares
// meet in the order of x_normed.wgsl, so that both give the same bits. Groups of
// activations are GROUP columns, the last one may be shorter.
//
// Source: DeepSeek-AI, "DeepSeek-V2" (2024), section 2.1; Su et al., "RoFormer" (2021).

const QUANTIZE = false;
const ENTRY_LANES = 64u;
const GROUP = 128u;
const MAX_GROUPS = 64u;

struct Params {
  a_stride: u32,
  query_offset: u32,
  query_width: u32,
  latent_offset: u32,
  latent: u32,
  rope_offset: u32,
  rope: u32,
  q_stride: u32,
  eps: f32,
}

@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> q_weight: array<f32>;
@group(0) @binding(2) var<storage, read> kv_weight: array<f32>;
@group(0) @binding(3) var<storage, read> rows: array<vec4u>;
@group(0) @binding(4) var<storage, read> rope_table: array<vec2f>;
@group(0) @binding(5) var<storage, read_write> q_out: array<f32>;
@group(0) @binding(6) var<storage, read_write> cache: array<CachePair>;
@group(0) @binding(7) var<uniform> params: Params;

var<workgroup> squares: array<f32, 2u * ENTRY_LANES>;
var<workgroup> largest: array<atomic<u32>, MAX_GROUPS>;

// What the second half of a workgroup writes: the row, its start in `a`, its latent's, the norm.
struct Entry {
  row: vec4u,
  start: u32,
  columns: u32,
  scale: f32,
}

fn latent_pair(entry: Entry, pair: u32) -> vec2f {
  let c = 2u * pair;
  return vec2f(a[entry.columns + c], a[entry.columns + c + 1u]) * entry.scale
    * vec2f(kv_weight[c], kv_weight[c + 1u]);
}

fn rope_pair(entry: Entry, pair: u32) -> vec2f {
  let at = entry.start + params.rope_offset + 2u * pair;
  let turn = rope_table[entry.row.y * (params.rope / 2u) + pair];
  return rotate(vec2f(a[at], a[at + 1u]), turn);
}

@compute @workgroup_size(2u * ENTRY_LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let row = rows[group.x];
  let half = invocation / ENTRY_LANES;
  let lane = invocation % ENTRY_LANES;
  let start = group.x * params.a_stride;
  let width = select(params.query_width, params.latent, half == 1u);
  let columns = start + select(params.query_offset, params.latent_offset, half == 1u);

  var sum = 0.0;
  for (var c = lane; c < width; c += ENTRY_LANES) {
    let value = a[columns + c];
    sum = fma(value, value, sum);
  }
  squares[invocation] = sum;
  workgroupBarrier();

  var sums = vec4f();
  for (var i = half * ENTRY_LANES; i < (half + 1u) * ENTRY_LANES; i += 4u) {
    sums += vec4f(squares[i], squares[i + 1u], squares[i + 2u], squares[i + 3u]);
  }
  let total = (sums.x + sums.y) + (sums.z + sums.w);
  let scale = inverseSqrt(total / f32(width) + params.eps);

  let entry = Entry(row, start, columns, scale);
  if half == 1u { find_largest(entry, lane); }
  let query_end = select(0u, params.query_width, half == 0u);
  if QUANTIZE {
    for (var c = lane; c < query_end; c += ENTRY_LANES) {
      let magnitude = abs(a[columns + c] * scale * q_weight[c]);
      // The bits of numbers that are not negative are in the order of the numbers.
      atomicMax(&largest[c / GROUP], bitcast<u32>(magnitude));
    }
  }
  workgroupBarrier();

  for (var c = lane; c < query_end; c += ENTRY_LANES) {
    var value = a[columns + c] * scale * q_weight[c];
    if QUANTIZE {
      let step = group_scale(bitcast<f32>(atomicLoad(&largest[c / GROUP])));
      value = round_e4m3(value / step) * step;
    }
    q_out[group.x * params.q_stride + c] = value;
  }

  if half == 1u { write_entry(entry, lane); }
}
