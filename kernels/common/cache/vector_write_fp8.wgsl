// How keys and values of gqa_vectors.wgsl are stored as FP8: each vector of HEAD_DIM codes is
// followed by its scale. First every vector's largest magnitude is found, then an invocation owns a
// word: the four elements that the kernel's stored_quad(own, vector, quad) gives. Where the word
// goes, its store_quad says.

var<workgroup> largest: array<atomic<u32>, 2u * MOST_HEADS>;

fn write_vectors(own: Vectors, lane: u32) {
  let end = 2u * own.keys * HEAD_QUADS;
  for (var i = lane; i < end; i += LANES) {
    let vector = i / HEAD_QUADS;
    atomicMax(&largest[vector], magnitude_bits(stored_quad(own, vector, i % HEAD_QUADS)));
  }
  workgroupBarrier();

  let entry = entry_place(own);
  for (var i = lane; i < end; i += LANES) {
    let vector = i / HEAD_QUADS;
    let quad = i % HEAD_QUADS;
    let scale = code_scale(atomicLoad(&largest[vector]));
    let to = entry + vector_place(own, vector);
    store_quad(own, to, vector, quad, encode_codes(stored_quad(own, vector, quad) / scale));
    if quad == 0u { store_quad(own, to, vector, HEAD_QUADS, bitcast<u32>(scale)); }
  }
}
