// mla_prefill: expanded latent attention of prompt rows, one pass over a workspace of keys
//
//   score(key) = scale * (q[r, h] nope . key nope + rotated rope part of q[r, h] . key rope)
//   out[r, h]  = sum over keys 0..position of softmax(score)[key] * value(key)
//
//   q           [rows, q_stride]                vec4f  read   per head nope + rope, not rotated
//   kv          [W, heads, nope + value]        vec4f  read   a head's key, then its value
//   ropes       [W, rope]                       vec4f  read   rotated
//   items       [items, 2]                      vec4u  read   first row, row count, workspace row,
//                                             first key; key count, is first, is last, 0
//   rows        [rows]                          vec4u  read   y = position
//   rope_table  [positions, rope / 4]           vec4f  read   cosine, sine, twice
//   state       [rows, heads]                   vec2f  both   m and l between two passes
//   out         [rows, out_stride]              vec4f  both   between two splits their sum so far
//
// Grid (item, head). ROWS rows of one sequence, positions ascending one by one, share every read of
// the workspace; a short item repeats its last row. Splits are walked in ascending order, from pass
// to pass, and put together as attention/merge_splits does. Orders: see attention_split.wgsl.
//
// Source: DeepSeek-AI, "DeepSeek-V2" (2024); Dao, "FlashAttention-2" (2023).

const NOPE = 32u;
const ROPE = 16u;
const VALUE = 32u;
const ROWS = 8u;
const HEADS = 1u;
const LANES = 8u;
const NOPE_QUADS = NOPE / 4u;
const ROPE_QUADS = ROPE / 4u;
const KEY_QUADS = NOPE_QUADS + ROPE_QUADS;
const VALUE_QUADS = VALUE / 4u;
const HEAD_QUADS = NOPE_QUADS + VALUE_QUADS;
// Nothing has a scale.
const VALUE_RUNS = 0u;
const RUN_QUADS = VALUE_QUADS;

struct Params {
  heads: u32,
  nope_quads: u32,
  key_quads: u32,
  value_quads: u32,
  q_stride: u32,
  out_stride: u32,
  split_length: u32,
  first_item: u32,
  scale: f32,
}

@group(0) @binding(0) var<storage, read> q: array<vec4f>;
@group(0) @binding(1) var<storage, read> kv: array<vec4f>;
@group(0) @binding(2) var<storage, read> ropes: array<vec4f>;
@group(0) @binding(3) var<storage, read> items: array<vec4u>;
@group(0) @binding(4) var<storage, read> rows: array<vec4u>;
@group(0) @binding(5) var<storage, read> rope_table: array<vec4f>;
@group(0) @binding(6) var<storage, read_write> state: array<vec2f>;
@group(0) @binding(7) var<storage, read_write> out: array<vec4f>;
@group(0) @binding(8) var<uniform> params: Params;

const_assert NOPE % 4u == 0u && ROPE % 4u == 0u && VALUE % 4u == 0u;

// Per query the splits so far: highest score, sum of weights.
var<private> totals: array<vec2f, QUERIES>;
// The quads of `ropes` of the four keys that were found last.
var<private> ropes_at: vec4u;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let head = group.y;
  let item = items[2u * (params.first_item + group.x)];
  let flags = items[2u * (params.first_item + group.x) + 1u];
  let length = rows[item.x].y + 1u;
  let asked = Queries(length, item.x, item.y, head, 1u);
  // The last row sees the most; some rows see no key of their last pass.
  let end = min(length + item.y - 1u, item.w + flags.x);
  let keys = Keys(item.z - item.w, head, item.w, end);

  // Bounds are no constants: all would be unrolled, which compiles for long.
  for (var i = 0u; i < query_count(asked); i++) {
    totals[i] = vec2f(NO_SCORE, 0.0);
    if flags.y == 0u { totals[i] = state[row_of(asked, i) * params.heads + head]; }
  }
  // At least once: rows without a key in their last pass are divided too.
  for (var split = item.w; split < max(end, item.w + 1u); split += params.split_length) {
    let split_end = min(end, split + params.split_length);
    let fresh = flags.y == 1u && split == item.w;
    let done = flags.z == 1u && split_end == end;
    attend_split(split, split_end, asked, keys, lane);
    for (var i = 0u; i < query_count(asked); i++) {
      if i >= item.y { continue; }
      let before = totals[i];
      let top = max(before.x, seen[i].x);
      let a = rescale(vec4f(before.x), vec4f(top)).x;
      let b = rescale(vec4f(seen[i].x), vec4f(top)).x;
      let l = fma(seen[i].y, b, before.y * a);
      totals[i] = vec2f(top, l);
      let start = (item.x + i) * (params.out_stride / 4u) + head * VALUE_QUADS;
      for (var c = 0u; c < column_count(); c++) {
        let quad = c * LANES + lane;
        if VALUE_QUADS % LANES != 0u && quad >= VALUE_QUADS { continue; }
        var earlier = vec4f();
        if !fresh { earlier = out[start + quad]; }
        let merged = fma(acc[i * COLUMNS + c], vec4f(b), earlier * a);
        out[start + quad] = select(merged, merged / l, done);
      }
    }
  }
  if flags.z == 1u || lane != 0u { return; }
  for (var i = 0u; i < query_count(asked); i++) {
    if i < item.y { state[(item.x + i) * params.heads + head] = totals[i]; }
  }
}

fn query_quad(asked: Queries, query: u32, quad: u32, turned: bool) -> vec4f {
  let row = row_of(asked, query);
  let x = q[row * (params.q_stride / 4u) + asked.first_head * KEY_QUADS + quad];
  if !turned { return x; }
  let position = asked.length - 1u + (row - asked.first_row);
  let turn = rope_table[position * ROPE_QUADS + quad - NOPE_QUADS];
  return vec4f(rotate(x.xy, turn.xy), rotate(x.zw, turn.zw));
}

fn value_quads() -> u32 {
  return params.value_quads;
}

// The quads of the workspace where the keys start.
fn find_entries(keys: Keys, key: vec4u) -> vec4u {
  let row = key + vec4u(keys.place);
  ropes_at = row * ROPE_QUADS;
  return (row * params.heads + vec4u(keys.head)) * HEAD_QUADS;
}

fn score_keys(at: vec4u, asked: Queries, lane: u32) -> array<vec4f, QUERIES> {
  var sums = array<vec4f, QUERIES>();
  // KEY_QUADS of them; a constant bound would be unrolled, which compiles for long.
  for (var first = 0u; first < params.nope_quads; first += QUADS) {
    var mine = own_quads(asked, first, lane, false);
    for (var j = 0u; j < quads_from(first, params.nope_quads); j++) {
      let quad = first + j;
      let x = mat4x4f(kv[at.x + quad], kv[at.y + quad], kv[at.z + quad], kv[at.w + quad]);
      add_scores(&sums, x, quad, asked, j, &mine, false);
    }
  }
  let start = ropes_at - vec4u(NOPE_QUADS);
  for (var first = params.nope_quads; first < params.key_quads; first += QUADS) {
    var mine = own_quads(asked, first, lane, true);
    for (var j = 0u; j < quads_from(first, params.key_quads); j++) {
      let quad = first + j;
      let x = mat4x4f(
        ropes[start.x + quad], ropes[start.y + quad], ropes[start.z + quad], ropes[start.w + quad]);
      add_scores(&sums, x, quad, asked, j, &mine, true);
    }
  }
  return sums;
}

fn value_quad(at: u32, quad: u32) -> vec4f {
  return kv[at + NOPE_QUADS + quad];
}

fn value_scales(at: vec4u, run: u32) -> vec4f {
  return vec4f(1.0);
}

// A row sees all keys up to its own.
fn first_seen(end: u32) -> u32 {
  return 0u;
}
