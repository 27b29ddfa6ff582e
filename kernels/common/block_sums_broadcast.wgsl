// The partial sums of one 128-column block, bit for bit those of block_sums.wgsl. The invocations
// of a subgroup read different vectors of x and hand them round, because they all need the same
// ones. Needs subgroups of SUBGROUP_SIZE >= 4 invocations, in the order of the invocations.

const SUBGROUP_SIZE = 8u;
// Vectors of x that are read at a time.
const SHARED = min(SUBGROUP_SIZE, TILE_VECTORS);
const TILE_VECTORS = 8u;
const TILE_GRANULES = TILE_VECTORS / GRANULE_VECTORS;
const BLOCK_TILES = BLOCK_COLUMNS / (4u * TILE_VECTORS);

const_assert SUBGROUP_SIZE >= 4u && (SUBGROUP_SIZE & (SUBGROUP_SIZE - 1u)) == 0u;

alias Tile = array<vec4f, TILE_VECTORS>;
// The chains of the four weight rows, for one activation row.
alias Chains = array<vec4f, 4>;

fn block_sums(block: u32, first_granule: vec4u, x_first: XRows, invocation: u32) -> Sums {
  var chains = array<Chains, TOKENS>();
  let used = (params.columns + 4u * TILE_VECTORS - 1u) / (4u * TILE_VECTORS);
  let end = min((block + 1u) * BLOCK_TILES, used);
  for (var tile = block * BLOCK_TILES; tile < end; tile++) {
    let at = first_granule + vec4u(tile * TILE_GRANULES * LANES);
    let w0 = decode_tile(at.x);
    let w1 = decode_tile(at.y);
    let w2 = decode_tile(at.z);
    let w3 = decode_tile(at.w);
    for (var t = 0u; t < TOKENS; t++) {
      var mine = array<vec4f, TILE_VECTORS / SHARED>();
      for (var i = 0u; i < TILE_VECTORS / SHARED; i++) {
        let vector = tile * TILE_VECTORS + i * SHARED + invocation % SHARED;
        mine[i] = masked(x[x_first[t] + vector], vector);
      }
      var c = chains[t];
      c = step(c, w0[0], w1[0], w2[0], w3[0], subgroupBroadcast(mine[0u / SHARED], 0u % SHARED));
      c = step(c, w0[1], w1[1], w2[1], w3[1], subgroupBroadcast(mine[1u / SHARED], 1u % SHARED));
      c = step(c, w0[2], w1[2], w2[2], w3[2], subgroupBroadcast(mine[2u / SHARED], 2u % SHARED));
      c = step(c, w0[3], w1[3], w2[3], w3[3], subgroupBroadcast(mine[3u / SHARED], 3u % SHARED));
      c = step(c, w0[4], w1[4], w2[4], w3[4], subgroupBroadcast(mine[4u / SHARED], 4u % SHARED));
      c = step(c, w0[5], w1[5], w2[5], w3[5], subgroupBroadcast(mine[5u / SHARED], 5u % SHARED));
      c = step(c, w0[6], w1[6], w2[6], w3[6], subgroupBroadcast(mine[6u / SHARED], 6u % SHARED));
      c = step(c, w0[7], w1[7], w2[7], w3[7], subgroupBroadcast(mine[7u / SHARED], 7u % SHARED));
      chains[t] = c;
    }
  }
  var sums = Sums();
  for (var t = 0u; t < TOKENS; t++) {
    let c = chains[t];
    sums[t] = vec4f(join(c[0]), join(c[1]), join(c[2]), join(c[3]));
  }
  return sums;
}

fn step(c: Chains, w0: vec4f, w1: vec4f, w2: vec4f, w3: vec4f, xv: vec4f) -> Chains {
  return Chains(fma(w0, xv, c[0]), fma(w1, xv, c[1]), fma(w2, xv, c[2]), fma(w3, xv, c[3]));
}

fn decode_tile(first: u32) -> Tile {
  var tile = Tile();
  for (var g = 0u; g < TILE_GRANULES; g++) {
    let decoded = decode(weights[first + g * LANES]);
    for (var v = 0u; v < GRANULE_VECTORS; v++) {
      tile[g * GRANULE_VECTORS + v] = decoded[v];
    }
  }
  return tile;
}
