// mla_prefill: expanded latent attention of prompt rows, one pass over a workspace of keys
//
//   score(key) = scale * (q[r, h] nope . key nope + rotated rope part of q[r, h] . key rope)
//   out[r, h]  = sum over keys 0..position of softmax(score)[key] * value(key)
//
//   q           [rows, q_stride]                f32    read   per head nope + rope, not rotated
//   kv          [W, heads, nope + value]        vec4f  read   a head's key, then its value
//   ropes       [W, rope]                       vec4f  read   rotated
//   items       [items, 2]                      vec4u  read   first row, row count, first workspace
//                                                             row, first key; key count, is first,
//                                                             is last, 0
//   rows        [rows]                          vec4u  read   y = position
//   rope_table  [positions, rope / 2]           vec2f  read   cosine, sine
//   state       [rows, heads, 2 + value]        f32    both   m, l, acc between passes
//   out         [rows, out_stride]              f32    write  at the item that is last
//
// Grid (item, head). ROW_TILE rows in vectors of four share the keys. Scores: an invocation owns
// KEYS keys at a time. Values: it owns columns.
//
// Order: a score is one chain over the key's elements; a tile of KEY_TILE keys is added key by key;
// tiles follow from the split's start; splits merge in ascending order. A key that a row must not
// see adds exact zeros, so the bits depend on the row alone: not on passes, tiles or neighbours.
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
const_assert KEY_TILE % (LANES * KEYS) == 0u;

var<workgroup> queries: array<vec4f, (NOPE + ROPE) * FOURS>;
// Two tiles in turns: one is filled while slow invocations still read the other.
var<workgroup> weights: array<vec4f, 2u * KEY_TILE * FOURS>;
var<workgroup> highest: array<vec4f, LANES * FOURS>;

fn load_queries(first_row: u32, row_count: u32, head: u32, lane: u32) {
  for (var r = 0u; r < ROW_TILE; r++) {
    let row = first_row + min(r, row_count - 1u);
    let at = row * params.q_stride + head * (NOPE + ROPE);
    for (var e = lane; e < NOPE; e += LANES) { queries[e * FOURS + r / 4u][r % 4u] = q[at + e]; }
    let turns = rows[row].y * (ROPE / 2u);
    for (var pair = lane; pair < ROPE / 2u; pair += LANES) {
      let e = NOPE + 2u * pair;
      let turned = rotate(vec2f(q[at + e], q[at + e + 1u]), rope_table[turns + pair]);
      queries[e * FOURS + r / 4u][r % 4u] = turned.x;
      queries[(e + 1u) * FOURS + r / 4u][r % 4u] = turned.y;
    }
  }
}

// Four elements of the rows' queries, element by element.
fn query_block(quad: u32) -> array<vec4f, 4u * FOURS> {
  var block = array<vec4f, 4u * FOURS>();
  for (var i = 0u; i < 4u * FOURS; i++) { block[i] = queries[quad * 4u * FOURS + i]; }
  return block;
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let head = group.y;
  let item = items[2u * (params.first_item + group.x)];
  let flags = items[2u * (params.first_item + group.x) + 1u];
  let first_row = item.x;
  let row_count = item.y;
  load_queries(first_row, row_count, head, lane);

  var total = no_keys();
  // Keys of this pass that each row sees; `end` is the largest such number.
  var limits = array<vec4u, FOURS>();
  var end = 0u;
  for (var r = 0u; r < ROW_TILE; r++) {
    if r >= row_count { continue; }
    let seen = max(rows[first_row + r].y + 1u, item.w) - item.w;
    let limit = min(seen, flags.x);
    limits[r / 4u][r % 4u] = limit;
    end = max(end, limit);
    let at = ((first_row + r) * params.heads + head) * (2u + VALUE);
    if flags.y == 0u {
      total.m[r / 4u][r % 4u] = state[at];
      total.l[r / 4u][r % 4u] = state[at + 1u];
      for (var c = 0u; c < COLUMNS; c++) {
        let column = at + 2u + 4u * min(c * LANES + lane, VALUE_QUADS - 1u);
        total.acc[r * COLUMNS + c] =
          vec4f(state[column], state[column + 1u], state[column + 2u], state[column + 3u]);
      }
    }
  }
  // Everybody has read the state before anybody writes it.
  storageBarrier();
  workgroupBarrier();

  var piece = no_keys();
  var buffer = 0u;
  for (var tile = 0u; tile < end; tile += KEY_TILE) {
    if tile > 0u && tile % params.split_length == 0u {
      merge(&total, &piece);
      piece = no_keys();
    }
    let count = min(KEY_TILE, end - tile);

    var tops = array<vec4f, FOURS>();
    for (var f = 0u; f < FOURS; f++) { tops[f] = vec4f(NO_SCORE); }
    for (var first = 0u; first < count; first += LANES * KEYS) {
      var key_at = array<u32, KEYS>();
      var rope_at = array<u32, KEYS>();
      for (var k = 0u; k < KEYS; k++) {
        let key = item.z + min(tile + first + k * LANES + lane, end - 1u);
        key_at[k] = (key * params.heads + head) * HEAD_QUADS;
        rope_at[k] = key * (ROPE / 4u);
      }
      var sums = array<vec4f, KEYS * FOURS>();
      for (var quad = 0u; quad < (NOPE + ROPE) / 4u; quad++) {
        let block = query_block(quad);
        for (var k = 0u; k < KEYS; k++) {
          var x = vec4f();
          if quad < NOPE / 4u { x = kv[key_at[k] + quad]; } else {
            x = ropes[rope_at[k] + quad - NOPE / 4u];
          }
          for (var f = 0u; f < FOURS; f++) {
            var sum = sums[k * FOURS + f];
            for (var e = 0u; e < 4u; e++) { sum = fma(vec4f(x[e]), block[e * FOURS + f], sum); }
            sums[k * FOURS + f] = sum;
          }
        }
      }
      for (var k = 0u; k < KEYS; k++) {
        let i = first + k * LANES + lane;
        for (var f = 0u; f < FOURS; f++) {
          let seen = vec4u(tile + i) < limits[f];
          let score = select(vec4f(NO_SCORE), sums[k * FOURS + f] * params.scale, seen);
          weights[buffer + i * FOURS + f] = score;
          tops[f] = max(tops[f], score);
        }
      }
    }
    for (var f = 0u; f < FOURS; f++) { highest[lane * FOURS + f] = tops[f]; }
    workgroupBarrier();

    for (var f = 0u; f < FOURS; f++) {
      var top = piece.m[f];
      for (var i = 0u; i < LANES; i++) { top = max(top, highest[i * FOURS + f]); }
      tops[f] = top;
      for (var i = lane; i < count; i += LANES) {
        let score = weights[buffer + i * FOURS + f];
        weights[buffer + i * FOURS + f] =
          select(exp(score - top), vec4f(), score == vec4f(NO_SCORE));
      }
    }
    workgroupBarrier();

    var shrinks = array<vec4f, FOURS>();
    for (var f = 0u; f < FOURS; f++) { shrinks[f] = rescale(piece.m[f], tops[f]); }
    for (var a = 0u; a < ROW_TILE * COLUMNS; a++) {
      let r = a / COLUMNS;
      piece.acc[a] *= shrinks[r / 4u][r % 4u];
    }
    var added = array<vec4f, FOURS>();
    for (var i = 0u; i < count; i++) {
      let value_at = ((item.z + tile + i) * params.heads + head) * HEAD_QUADS + NOPE / 4u;
      var values = array<vec4f, COLUMNS>();
      for (var c = 0u; c < COLUMNS; c++) {
        values[c] = kv[value_at + min(c * LANES + lane, VALUE_QUADS - 1u)];
      }
      for (var f = 0u; f < FOURS; f++) {
        let weight = weights[buffer + i * FOURS + f];
        added[f] += weight;
        for (var r = 0u; r < 4u; r++) {
          for (var c = 0u; c < COLUMNS; c++) {
            let a = (4u * f + r) * COLUMNS + c;
            piece.acc[a] = fma(vec4f(weight[r]), values[c], piece.acc[a]);
          }
        }
      }
    }
    for (var f = 0u; f < FOURS; f++) {
      piece.l[f] = fma(piece.l[f], shrinks[f], added[f]);
      piece.m[f] = tops[f];
    }
    buffer = KEY_TILE * FOURS - buffer;
  }
  merge(&total, &piece);

  for (var r = 0u; r < ROW_TILE; r++) {
    if r >= row_count { continue; }
    let l = total.l[r / 4u][r % 4u];
    let state_at = ((first_row + r) * params.heads + head) * (2u + VALUE);
    if flags.z == 0u && lane == 0u {
      state[state_at] = total.m[r / 4u][r % 4u];
      state[state_at + 1u] = l;
    }
    for (var c = 0u; c < COLUMNS; c++) {
      let quad = c * LANES + lane;
      if quad >= VALUE_QUADS { continue; }
      let value = total.acc[r * COLUMNS + c];
      for (var e = 0u; e < 4u; e++) {
        let column = 4u * quad + e;
        if flags.z == 0u {
          state[state_at + 2u + column] = value[e];
        } else {
          out[(first_row + r) * params.out_stride + head * VALUE + column] = value[e] / l;
        }
      }
    }
  }
}
