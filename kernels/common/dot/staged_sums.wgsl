// What dot_rows_staged.wgsl does with what it has staged: chains of products in f32, in the order that
// dot_rows.wgsl fixes.

// Adds the products of the first `vectors` vectors that are staged.
fn add_products(chains: ptr<function, Chains>, mine: Share, vectors: u32) {
  for (var v = 0u; v < vectors; v++) {
    let w0 = staged_weights[v][0][mine.row_lane];
    let w1 = staged_weights[v][1][mine.row_lane];
    let w2 = staged_weights[v][2][mine.row_lane];
    let w3 = staged_weights[v][3][mine.row_lane];
    for (var t = 0u; t < TOKENS; t++) {
      let xv = staged_x[v].rows[mine.token_lane][t];
      (*chains)[t][0] = fma(w0, xv, (*chains)[t][0]);
      (*chains)[t][1] = fma(w1, xv, (*chains)[t][1]);
      (*chains)[t][2] = fma(w2, xv, (*chains)[t][2]);
      (*chains)[t][3] = fma(w3, xv, (*chains)[t][3]);
    }
  }
}
