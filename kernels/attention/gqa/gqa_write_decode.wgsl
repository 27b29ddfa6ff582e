// gqa_write_decode: what cache/gqa_write and attention/gqa_decode do for generated rows that are each
// the only one of their sequence, in one launch and in the same bits
//
//   projected    [rows, projected_stride]       vec2f  read   the parts start at the *_column columns
//   norms        [...]                          vec2f  read   when NORM: of queries, from key_norm on of keys
//   rows         [rows]                         vec4u  read   y = position, z = cache slot, w = first page
//   rope_table   [positions, ROTARY / 2]        vec2f  read   cosine, sine
//   cache        [slots, 2, kv_heads, HEAD_DIM] quads  both   as the joined cache_*.wgsl stores them
//   page_tables  [pages]                        u32    read
//   sinks        [heads]                        f32    read   when has_sinks
//   out          [rows, out_stride]             f32    write  as attention/gqa_decode
//
// Grid (row, HEADS heads of one key head, split). A workgroup norms and turns its query heads for
// itself, and attends to one split. Only the row's last split has the row's own key: there a workgroup
// makes it and its value too, and that of the key head's first queries writes both into the cache.
// Where several workgroups have queries of one key head, none of them reads there, as nothing orders
// it with the write: each keeps the entry to itself, as the cache holds it. Orders: see
// gqa_vectors.wgsl and attention_split.wgsl.
//
// Source: Ainslie et al., "GQA" (2023); Dao et al., "Flash-Decoding" (2023).

const HEAD_DIM = 128u;
const ROWS = 1u;
const HEADS = 2u;
const LANES = 8u;
// Whether one key head has queries in several workgroups.
const SHARES = false;

struct Params {
  projected_stride: u32,
  query_column: u32,
  key_column: u32,
  value_column: u32,
  key_norm: u32,
  eps: f32,
  heads: u32,
  kv_heads: u32,
  head_quads: u32,
  out_stride: u32,
  page_size: u32,
  split_length: u32,
  max_splits: u32,
  direct: u32,
  window: u32,
  has_sinks: u32,
  scale: f32,
}

@group(0) @binding(0) var<storage, read> projected: array<vec2f>;
@group(0) @binding(1) var<storage, read> norms: array<vec2f>;
@group(0) @binding(2) var<storage, read> rows: array<vec4u>;
@group(0) @binding(3) var<storage, read> rope_table: array<vec2f>;
@group(0) @binding(4) var<storage, read_write> cache: array<CacheQuad>;
@group(0) @binding(5) var<storage, read> page_tables: array<u32>;
@group(0) @binding(6) var<storage, read> sinks: array<f32>;
@group(0) @binding(7) var<storage, read_write> out: array<f32>;
@group(0) @binding(8) var<uniform> params: Params;

// The queries, and in the last split the key and the value, pair by pair.
var<workgroup> pairs: array<vec2f, (HEADS + 2u) * HEAD_PAIRS>;
// The row's own key and value as the cache holds them, where it is not to be read.
var<workgroup> kept: array<CacheQuad, select(1u, 2u * VECTOR_QUADS, SHARES)>;
// Where an entry lies that is in `kept`: behind every place in the cache.
const KEPT = 0x80000000u;
const NO_KEY = 0xffffffffu;
// The key whose entry is in `kept`.
var<private> kept_key: u32;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let part = find_part(group, vec2u(group.x, 1u));
  if part.start >= part.keys.end { return; }
  let is_last = part.keys.end == part.asked.length;
  let keys = select(0u, 1u, is_last);
  let queries = select(HEADS, part.asked.head_count, SHARES);
  let own = Vectors(group.x, part.asked.first_head, queries, part.keys.head, keys);
  kept_key = select(NO_KEY, part.asked.length - 1u, is_last);
  if NORM {
    add_squares(own, lane);
    workgroupBarrier();
  }
  for (var i = lane; i < (queries + 2u * keys) * HEAD_QUADS; i += LANES) {
    let vector = i / HEAD_QUADS;
    let unit = turned(own, vector, i % HEAD_QUADS);
    pairs[vector * HEAD_PAIRS + unit.near] = unit.x;
    pairs[vector * HEAD_PAIRS + unit.far] = unit.y;
  }
  workgroupBarrier();
  write_vectors(own, lane);
  if SHARES { workgroupBarrier(); } else { storageBarrier(); }
  attend_part(part, group.z, lane);
}

fn query_quad(asked: Queries, query: u32, quad: u32, turned: bool) -> vec4f {
  let vector = select(query, min(query, asked.head_count - 1u), SHARES);
  let at = vector * HEAD_PAIRS + 2u * quad;
  return vec4f(pairs[at], pairs[at + 1u]);
}

// Of the key or the value.
fn stored_quad(own: Vectors, vector: u32, quad: u32) -> vec4f {
  let at = (own.queries + vector) * HEAD_PAIRS + 2u * quad;
  return vec4f(pairs[at], pairs[at + 1u]);
}

// The key or the value begins at `to` in the cache.
fn store_quad(own: Vectors, to: u32, vector: u32, quad: u32, stored: CacheQuad) {
  if SHARES { kept[vector * VECTOR_QUADS + quad] = stored; }
  let is_first = own.first_query * params.kv_heads == own.first_key * params.heads;
  if !SHARES || is_first { cache[to + quad] = stored; }
}

fn entries_of_row(key: vec4u, places: vec4u) -> vec4u {
  if !SHARES { return places; }
  return select(places, vec4u(KEPT), key == vec4u(kept_key));
}

fn entry_quad(place: u32) -> CacheQuad {
  if SHARES && place >= KEPT {
    // The value, too, is as far from the key as in the cache.
    let at = place - KEPT;
    return kept[select(at - (params.kv_heads - 1u) * VECTOR_QUADS, at, at < VECTOR_QUADS)];
  }
  return cache[place];
}
