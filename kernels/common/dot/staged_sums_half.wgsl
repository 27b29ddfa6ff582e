// What dot_rows_staged.wgsl does with what it has staged: products in f16, bit for bit those of
// group_sums_half.wgsl, whose runs are the steps here.

const_assert 4u * STEP_VECTORS == 32u;

// Adds the products of the first `vectors` vectors that are staged.
fn add_products(chains: ptr<function, Chains>, mine: Share, vectors: u32) {
  var products = array<array<Staged, 4>, TOKENS>();
  for (var v = 0u; v < vectors; v++) {
    let w0 = staged_weights[v][0][mine.row_lane];
    let w1 = staged_weights[v][1][mine.row_lane];
    let w2 = staged_weights[v][2][mine.row_lane];
    let w3 = staged_weights[v][3][mine.row_lane];
    for (var t = 0u; t < TOKENS; t++) {
      let xv = staged_x[v].rows[mine.token_lane][t];
      products[t][0] = fma(w0, xv, products[t][0]);
      products[t][1] = fma(w1, xv, products[t][1]);
      products[t][2] = fma(w2, xv, products[t][2]);
      products[t][3] = fma(w3, xv, products[t][3]);
    }
  }
  for (var t = 0u; t < TOKENS; t++) {
    (*chains)[t][0] += vec4f(products[t][0]);
    (*chains)[t][1] += vec4f(products[t][1]);
    (*chains)[t][2] += vec4f(products[t][2]);
    (*chains)[t][3] += vec4f(products[t][3]);
  }
}
