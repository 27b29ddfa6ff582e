// What a row of `x` is still to be multiplied with: 1 / rms of the row of the residual stream it was
// made of, whose sums of squares, one for each SQUARES_COLUMNS columns, stand `squares` vectors
// behind its start; 1 where `squares` is 0, and where a first sum below zero says that it is normed.
//
// Source: Zhang & Sennrich, "Root Mean Square Layer Normalization" (2019).

// first: index of the row's first vector. The order of additions depends on `columns` alone.
fn row_scale(first: u32) -> f32 {
  let tiles = (params.columns + SQUARES_COLUMNS - 1u) / SQUARES_COLUMNS;
  let start = first + params.squares;
  if params.squares == 0u || bitcast<f32>(x[start].x) < 0.0 { return 1.0; }
  var sums = vec4f();
  for (var v = 0u; 4u * v < tiles; v++) {
    let inside = vec4u(4u * v) + vec4u(0u, 1u, 2u, 3u) < vec4u(tiles);
    sums += select(vec4f(), bitcast<vec4f>(x[start + v]), inside);
  }
  return inverseSqrt(join(sums) / f32(params.columns) + params.eps);
}
