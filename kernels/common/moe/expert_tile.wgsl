// What a workgroup of an expert kernel works on: up to TOKENS * TOKEN_LANES pairs of one expert. A
// pair is one choice of one row: pair = row * slots + slot.
//
// With SORTED, `pairs` holds pairs in the order of their experts, and tile i is tiles[i + 1] =
// (expert, first index in `pairs`, how many), one of tiles[0].x tiles. Else every pair is a tile:
// `pairs` holds the expert of each.

struct ExpertTile {
  // Number in this slab; at least `expert_count` when there is nothing to do.
  expert: u32,
  first: u32,
  count: u32,
}

fn expert_tile(index: u32) -> ExpertTile {
  if SORTED {
    if index >= tiles[0].x { return ExpertTile(params.expert_count, 0u, 0u); }
    let tile = tiles[index + 1u];
    return ExpertTile(tile.x - params.first_expert, tile.y, tile.z);
  }
  return ExpertTile(pairs[index] - params.first_expert, index, 1u);
}

// Pair number t of a tile; its last one in place of those it does not have.
fn tile_pair(tile: ExpertTile, t: u32) -> u32 {
  let index = tile.first + min(t, tile.count - 1u);
  if SORTED { return pairs[index]; }
  return index;
}

// Indices of the first granule and the first scale of weight rows of the tile's expert.
fn expert_granules(tile: ExpertTile, row: vec4u) -> vec4u {
  return granules_behind(tile.expert * weight_granules(), row);
}

fn expert_scales(tile: ExpertTile, row: vec4u) -> vec4u {
  return scales_behind(tile.expert * weight_scales(), row);
}
