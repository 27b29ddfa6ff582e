// Sums of the panels of a tile, handed to the invocations in turns of TURN_ROWS rows, for which there is
// room in workgroup memory. Written out as matrix_panels.wgsl is, which it needs.

// Leaves the sums of the rows of turn number `turn` in `products`.
fn store_turn(sums: ptr<function, PanelProducts>, turn: u32, lanes: Lanes) {
  for (var i = 0u; i < PANELS_EACH; i++) {
    let panel = subgroup_number(lanes) + i * subgroup_count(lanes);
    if panel < PANELS {
      let row = panel % ROW_PANELS * PANEL_ROWS;
      let output = panel / ROW_PANELS * PANEL_OUTPUTS;
      store_own(row + 0u * MATRIX_M, output + 0u * MATRIX_N, turn, (*sums)[i].p00);
      if OUTPUT_MATRICES > 1u {
        store_own(row + 0u * MATRIX_M, output + 1u * MATRIX_N, turn, (*sums)[i].p01);
      }
      if OUTPUT_MATRICES > 2u {
        store_own(row + 0u * MATRIX_M, output + 2u * MATRIX_N, turn, (*sums)[i].p02);
      }
      if OUTPUT_MATRICES > 3u {
        store_own(row + 0u * MATRIX_M, output + 3u * MATRIX_N, turn, (*sums)[i].p03);
      }
      if ROW_MATRICES > 1u {
        store_own(row + 1u * MATRIX_M, output + 0u * MATRIX_N, turn, (*sums)[i].p10);
      }
      if ROW_MATRICES > 1u && OUTPUT_MATRICES > 1u {
        store_own(row + 1u * MATRIX_M, output + 1u * MATRIX_N, turn, (*sums)[i].p11);
      }
      if ROW_MATRICES > 1u && OUTPUT_MATRICES > 2u {
        store_own(row + 1u * MATRIX_M, output + 2u * MATRIX_N, turn, (*sums)[i].p12);
      }
      if ROW_MATRICES > 1u && OUTPUT_MATRICES > 3u {
        store_own(row + 1u * MATRIX_M, output + 3u * MATRIX_N, turn, (*sums)[i].p13);
      }
      if ROW_MATRICES > 2u {
        store_own(row + 2u * MATRIX_M, output + 0u * MATRIX_N, turn, (*sums)[i].p20);
      }
      if ROW_MATRICES > 2u && OUTPUT_MATRICES > 1u {
        store_own(row + 2u * MATRIX_M, output + 1u * MATRIX_N, turn, (*sums)[i].p21);
      }
      if ROW_MATRICES > 2u && OUTPUT_MATRICES > 2u {
        store_own(row + 2u * MATRIX_M, output + 2u * MATRIX_N, turn, (*sums)[i].p22);
      }
      if ROW_MATRICES > 2u && OUTPUT_MATRICES > 3u {
        store_own(row + 2u * MATRIX_M, output + 3u * MATRIX_N, turn, (*sums)[i].p23);
      }
      if ROW_MATRICES > 3u {
        store_own(row + 3u * MATRIX_M, output + 0u * MATRIX_N, turn, (*sums)[i].p30);
      }
      if ROW_MATRICES > 3u && OUTPUT_MATRICES > 1u {
        store_own(row + 3u * MATRIX_M, output + 1u * MATRIX_N, turn, (*sums)[i].p31);
      }
      if ROW_MATRICES > 3u && OUTPUT_MATRICES > 2u {
        store_own(row + 3u * MATRIX_M, output + 2u * MATRIX_N, turn, (*sums)[i].p32);
      }
      if ROW_MATRICES > 3u && OUTPUT_MATRICES > 3u {
        store_own(row + 3u * MATRIX_M, output + 3u * MATRIX_N, turn, (*sums)[i].p33);
      }
    }
  }
}

// A product whose first number is that of a row and an output of the tile, if it is of this turn.
fn store_own(row: u32, output: u32, turn: u32, product: Product) {
  if row / TURN_ROWS == turn {
    store_product(row % TURN_ROWS * PRODUCT_STRIDE + output, product);
  }
}

// Four of the sums of row r of a turn, from output n on.
fn turn_product(r: u32, n: u32) -> vec4f {
  let p = r * PRODUCT_STRIDE + n;
  return vec4f(products[p], products[p + 1u], products[p + 2u], products[p + 3u]);
}
