// How cache/gqa_write stores a row's keys and values where elements are kept as they are: element
// by element, the keys of all heads, then the values. A pair may be one word.

fn write_vectors(row: u32, lane: u32) {
  let slot = rows[row].z * (2u * params.kv_heads * HEAD_PAIRS);
  for (var i = lane; i < 2u * params.kv_heads * HEAD_UNITS; i += LANES) {
    let vector = i / HEAD_UNITS;
    let unit = turned(row, params.heads + vector, i % HEAD_UNITS);
    let to = slot + vector * HEAD_PAIRS;
    cache[to + unit.near] = encode_pair(unit.x);
    cache[to + unit.far] = encode_pair(unit.y);
  }
}
