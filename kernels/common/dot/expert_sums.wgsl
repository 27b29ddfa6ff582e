// What the down projection of an expert makes of its pairs. Needs expert_tile.wgsl and, of
// `params`, `x_stride` and `rows_padded`.

// Four outputs of each pair of a tile.
fn tile_sums(tile: ExpertTile, row: vec4u, invocation: u32) -> Sums {
  let first_pair = first_token(0u, invocation);
  wanted_tokens = tile.count;
  var x_first = XRows();
  for (var t = 0u; t < TOKENS; t++) {
    x_first[t] = tile_pair(tile, first_pair + t) * params.x_stride / 4u;
  }
  let granule = expert_granules(tile, row);
  let addend = vec4u(tile.expert * params.rows_padded) + row;
  return add_bias(dot_rows(granule, expert_scales(tile, row), x_first, invocation), addend);
}
