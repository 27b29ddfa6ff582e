// Where vector_write_fp8.wgsl leaves the words of a key or value that begins at `to`: there.

fn store_quad(own: Vectors, to: u32, vector: u32, quad: u32, stored: u32) {
  cache[to + quad] = stored;
}
