// mla_prefill: expanded latent attention of prompt rows, one pass over a workspace of keys
//
//   score(key) = scale * (q[r, h] nope . key nope + rotated rope part of q[r, h] . key rope)
//   out[r, h]  = sum over keys 0..position of softmax(score)[key] * value(key)
//
//   q           [rows, q_stride]                f32    read   per head nope + rope, not rotated
//   kv          [W, heads, nope + value]        vec4f  read   a head's key, then its value
//   ropes       [W, rope]                       vec4f  read   rotated
//   items       [items, 2]                      vec4u  read   first row, row count, workspace row,
//                                             first key; key count, is first, is last, 0
//   rows        [rows]                          vec4u  read   y = position
//   rope_table  [positions, rope / 2]           vec2f  read   cosine, sine
//   state       [rows, heads, 2 + value]        f32    both   m, l, acc between passes
//   out         [rows, out_stride]              f32    write  at the item that is last
//
// Grid (item, head). ROW_TILE rows in vectors of four share the keys. Scores: an invocation owns
// KEYS keys at a time. Values: it owns columns. A score is one chain over the key's elements, a
// tile of KEY_TILE keys is added key by key, tiles follow from the split's start, splits merge in
// ascending order, a key that a row must not see adds exact zeros: so the bits depend on the row
// alone, not on passes, tiles or neighbours.
//
// Source: DeepSeek-AI, "DeepSeek-V2" (2024); Dao, "FlashAttention-2" (2023).

const NOPE = 32u;
const ROPE = 16u;
const VALUE = 32u;
const LANES = 8u;
const KEYS = 4u;
const KEY_TILE = 64u;
const ROW_TILE = 8u;
const FOURS = ROW_TILE / 4u;
const VALUE_QUADS = VALUE / 4u;
const HEAD_QUADS = (NOPE + VALUE) / 4u;
const COLUMNS = (VALUE_QUADS + LANES - 1u) / LANES;

struct Params {
  heads: u32,
  q_stride: u32,
  out_stride: u32,
  split_length: u32,
  first_item: u32,
  key_quads: u32,
  scale: f32,
}

@group(0) @binding(0) var<storage, read> q: array<f32>;
@group(0) @binding(1) var<storage, read> kv: array<vec4f>;
@group(0) @binding(2) var<storage, read> ropes: array<vec4f>;
@group(0) @binding(3) var<storage, read> items: array<vec4u>;
@group(0) @binding(4) var<storage, read> rows: array<vec4u>;
@group(0) @binding(5) var<storage, read> rope_table: array<vec2f>;
@group(0) @binding(6) var<storage, read_write> state: array<f32>;
@group(0) @binding(7) var<storage, read_write> out: array<f32>;
@group(0) @binding(8) var<uniform> params: Params;

const_assert NOPE % 4u == 0u && ROPE % 4u == 0u && VALUE % 4u == 0u;
const_assert KEY_TILE % (LANES * KEYS) == 0u && LANES >= ROW_TILE;
// Two tiles in turns: one is filled while slow invocations still read the other.
var<workgroup> weights: array<vec4f, 2u * KEY_TILE * FOURS>;
var<workgroup> highest: array<vec4f, LANES * FOURS>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let head = group.y;
  let item = items[2u * (params.first_item + group.x)];
  let flags = items[2u * (params.first_item + group.x) + 1u];
  load_rows(item, flags, head, lane);
  workgroupBarrier();
  // The last row sees the most.
  let end = min(max(rows[item.x + item.y - 1u].y + 1u, item.w) - item.w, flags.x);
  var limits = array<vec4u, FOURS>();
  var total_m = array<vec4f, FOURS>();
  var total_l = array<vec4f, FOURS>();
  for (var r = 0u; r < ROW_TILE; r++) {
    limits[r / 4u][r % 4u] = seen[r];
    total_m[r / 4u][r % 4u] = before[r].x;
    total_l[r / 4u][r % 4u] = before[r].y;
  }

  var buffer = 0u;
  // At least once: rows without a key in their last pass are written too.
  for (var split = 0u; split < max(end, 1u); split += params.split_length) {
    var m = no_scores();
    var l = array<vec4f, FOURS>();
    var acc = array<vec4f, ROW_TILE * COLUMNS>();
    var shrinks = m;
    let split_end = min(end, split + params.split_length);
    for (var tile = split; tile < split_end; tile += KEY_TILE) {
      let count = min(KEY_TILE, split_end - tile);
      var tops = m;
      for (var first = 0u; first < count; first += LANES * KEYS) {
        var key_at = array<u32, KEYS>();
        var rope_at = array<u32, KEYS>();
        for (var k = 0u; k < KEYS; k++) {
          let key = item.z + min(tile + first + k * LANES + lane, end - 1u);
          key_at[k] = (key * params.heads + head) * HEAD_QUADS;
          rope_at[k] = key * (ROPE / 4u);
        }
        var sums = array<vec4f, KEYS * FOURS>();
        for (var quad = 0u; quad < params.key_quads; quad++) {
          let block = query_block(quad, lane);
          for (var k = 0u; k < KEYS; k++) {
            var x = vec4f();
            if quad < NOPE / 4u { x = kv[key_at[k] + quad]; }
            else { x = ropes[rope_at[k] + quad - NOPE / 4u]; }
            for (var i = 0u; i < 4u * FOURS; i++) {
              let f = k * FOURS + i % FOURS;
              sums[f] = fma(vec4f(x[i / FOURS]), block[i], sums[f]);
            }
          }
        }
        for (var i = 0u; i < KEYS * FOURS; i++) {
          let key = first + (i / FOURS) * LANES + lane;
          let visible = vec4u(tile + key) < limits[i % FOURS];
          let score = select(vec4f(NO_SCORE), sums[i] * params.scale, visible);
          weights[buffer + key * FOURS + i % FOURS] = score;
          tops[i % FOURS] = max(tops[i % FOURS], score);
        }
      }
      for (var f = 0u; f < FOURS; f++) { highest[lane * FOURS + f] = tops[f]; }
      workgroupBarrier();
      for (var i = 0u; i < LANES; i++) {
        for (var f = 0u; f < FOURS; f++) { tops[f] = max(tops[f], highest[i * FOURS + f]); }
      }
      for (var i = lane; i < count; i += LANES) {
        for (var f = 0u; f < FOURS; f++) {
          let at = buffer + i * FOURS + f;
          let hidden = weights[at] == vec4f(NO_SCORE);
          weights[at] = select(exp(weights[at] - tops[f]), vec4f(), hidden);
        }
      }
      workgroupBarrier();
      for (var f = 0u; f < FOURS; f++) { shrinks[f] = rescale(m[f], tops[f]); }
      for (var a = 0u; a < ROW_TILE * COLUMNS; a++) {
        acc[a] *= shrinks[a / COLUMNS / 4u][a / COLUMNS % 4u];
      }
      var added = array<vec4f, FOURS>();
      for (var first = 0u; first < count; first += SHARERS / FOURS) {
        let mine = weights[buffer + first * FOURS + lane % SHARERS];
        for (var k = 0u; k < SHARERS / FOURS; k++) {
          if first + k >= count { break; }
          let key = (item.z + tile + first + k) * params.heads + head;
          var rows_weights = array<vec4f, FOURS>();
          for (var f = 0u; f < FOURS; f++) {
            let own = weights[buffer + (first + k) * FOURS + f];
            rows_weights[f] = shared_read(mine, k * FOURS + f, own);
            added[f] += rows_weights[f];
          }
          for (var c = 0u; c < COLUMNS; c++) {
            let value = kv[key * HEAD_QUADS + NOPE / 4u + min(c * LANES + lane, VALUE_QUADS - 1u)];
            for (var r = 0u; r < ROW_TILE; r++) {
              let a = r * COLUMNS + c;
              acc[a] = fma(vec4f(rows_weights[r / 4u][r % 4u]), value, acc[a]);
            }
          }
        }
      }
      for (var f = 0u; f < FOURS; f++) { l[f] = fma(l[f], shrinks[f], added[f]); }
      m = tops;
      buffer = KEY_TILE * FOURS - buffer;
    }

    // Put the split to those before it; their acc lies in `state`, or in no place at first.
    var before_scale = m;
    var split_scale = m;
    for (var f = 0u; f < FOURS; f++) {
      let top = max(total_m[f], m[f]);
      before_scale[f] = rescale(total_m[f], top);
      split_scale[f] = rescale(m[f], top);
      total_l[f] = fma(l[f], split_scale[f], total_l[f] * before_scale[f]);
      total_m[f] = top;
    }
    let fresh = flags.y == 1u && split == 0u;
    let done = flags.z == 1u && split_end == end;
    for (var r = 0u; r < item.y; r++) {
      let a = of_row(before_scale, r);
      let b = of_row(split_scale, r);
      for (var c = 0u; c < COLUMNS; c++) {
        let quad = c * LANES + lane;
        if quad >= VALUE_QUADS { continue; }
        var value = vec4f();
        for (var i = 0u; i < ROW_TILE; i++) { value = select(value, acc[i * COLUMNS + c], i == r); }
        let state_at = ((item.x + r) * params.heads + head) * (2u + VALUE) + 2u + 4u * quad;
        let out_at = (item.x + r) * params.out_stride + head * VALUE + 4u * quad;
        for (var e = 0u; e < 4u; e++) {
          var earlier = 0.0;
          if !fresh { earlier = state[state_at + e]; }
          let merged = fma(value[e], b, earlier * a);
          if done { out[out_at + e] = merged / of_row(total_l, r); } else { state[state_at + e] = merged; }
        }
      }
    }
  }

  if flags.z == 0u && lane < item.y {
    let at = ((item.x + lane) * params.heads + head) * (2u + VALUE);
    state[at] = of_row(total_m, lane);
    state[at + 1u] = of_row(total_l, lane);
  }
}
