// What the down projection of an expert makes of its pairs. Needs common/expert_tile.wgsl and, of
// `params`, `x_stride` and `rows_padded`.

// Four outputs of each pair of a tile.
fn tile_sums(tile: ExpertTile, row: vec4u, invocation: u32) -> Sums {
  let first_pair = first_token(0u, invocation);
  var x_first = XRows();
  for (var t = 0u; t < TOKENS; t++) {
    x_first[t] = tile_pair(tile, first_pair + t) * params.x_stride / 4u;
  }
  let granule = vec4u(tile.expert * expert_granules()) + row_granules(row);
  let scale = vec4u(tile.expert * expert_scales()) + row;
  let addend = vec4u(tile.expert * params.rows_padded) + row;
  return add_bias(dot_rows(granule, scale, x_first, invocation), addend);
}
