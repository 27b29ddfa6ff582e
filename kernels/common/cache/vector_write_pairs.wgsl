// How cache/gqa_write stores keys and values where elements are kept as they are: pair by pair, as it
// turns them. A pair may be one word.

fn write_vectors(own: Vectors, lane: u32) {
  let entry = entry_place(own);
  for (var i = lane; i < 2u * own.keys * HEAD_QUADS; i += LANES) {
    let vector = i / HEAD_QUADS;
    let unit = turned(own, own.queries + vector, i % HEAD_QUADS);
    let to = 2u * (entry + vector_place(own, vector));
    cache[to + unit.near] = encode_pair(unit.x);
    cache[to + unit.far] = encode_pair(unit.y);
  }
}
