// A piece of the softmax of ROW_TILE rows, in vectors of four; of the values only the quads of
// columns that the invocation owns. Needs ROW_TILE, FOURS = ROW_TILE / 4, COLUMNS.

struct Piece {
  m: array<vec4f, FOURS>,
  l: array<vec4f, FOURS>,
  acc: array<vec4f, ROW_TILE * COLUMNS>,
}

fn no_keys() -> Piece {
  var piece = Piece();
  for (var f = 0u; f < FOURS; f++) { piece.m[f] = vec4f(NO_SCORE); }
  return piece;
}

// Adds a split to those before it.
fn merge(total: ptr<function, Piece>, piece: ptr<function, Piece>) {
  for (var f = 0u; f < FOURS; f++) {
    let top = max(total.m[f], piece.m[f]);
    let a = rescale(total.m[f], top);
    let b = rescale(piece.m[f], top);
    total.m[f] = top;
    total.l[f] = fma(piece.l[f], b, total.l[f] * a);
    for (var r = 0u; r < 4u; r++) {
      for (var c = 0u; c < COLUMNS; c++) {
        let i = (4u * f + r) * COLUMNS + c;
        total.acc[i] = fma(piece.acc[i], vec4f(b[r]), total.acc[i] * a[r]);
      }
    }
  }
}
