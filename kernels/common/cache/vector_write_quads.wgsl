// How attention/gqa_write_decode stores keys and values where elements are kept as they are: by the
// quads that it reads the cache in, whose halves no two invocations may write. Where a quad goes, its
// store_quad says.

fn write_vectors(own: Vectors, lane: u32) {
  let entry = entry_place(own);
  for (var i = lane; i < 2u * own.keys * HEAD_QUADS; i += LANES) {
    let vector = i / HEAD_QUADS;
    let quad = i % HEAD_QUADS;
    let values = stored_quad(own, vector, quad);
    let stored = CacheQuad(encode_pair(values.xy), encode_pair(values.zw));
    store_quad(own, entry + vector_place(own, vector), vector, quad, stored);
  }
}
