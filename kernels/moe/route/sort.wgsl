// sort: orders (row, slot) pairs from first_pair on by the expert they go to, and cuts each expert's
//       pairs in tiles
//
//   experts       [pairs]     u32    read   physical expert of each pair, below MAX_EXPERTS
//   sorted_pairs  [pairs]     u32    write  pair indices; those of one expert ascend
//   scratch       [pairs]     u32    write  any contents
//   tiles         [1 + tiles] vec4u  write  tiles[0].x = number of tiles; then one entry a tile,
//                                           experts ascending: (expert, first index in
//                                           sorted_pairs, pairs in it <= tile_size, 0)
//   grids         [grids]     vec4u  update y = number of tiles: the grids of launches over tiles
//
// One workgroup in all. Stable radix sort, DIGIT_BITS of the expert at a time, least significant
// first: every invocation counts the digits of its own run of pairs, one scan over (digit,
// invocation) turns counts into places, and each invocation moves its run. The two buffers change
// roles every pass, so that the last one writes `sorted_pairs`.

const WORKGROUP_SIZE = 256u;
const DIGIT_BITS = 3u;
const DIGITS = 1u << DIGIT_BITS;
const CELLS = DIGITS * WORKGROUP_SIZE;
const MAX_EXPERTS = 1280u;

struct Params {
  first_pair: u32,
  pairs: u32,
  tile_size: u32,
  passes: u32,
  experts_each: u32,
  grids: u32,
}

// Not written: but a buffer that is cannot be bound to be read alone.
@group(0) @binding(0) var<storage, read_write> experts: array<u32>;
@group(0) @binding(1) var<storage, read_write> sorted_pairs: array<u32>;
@group(0) @binding(2) var<storage, read_write> scratch: array<u32>;
@group(0) @binding(3) var<storage, read_write> tiles: array<vec4u>;
@group(0) @binding(4) var<storage, read_write> grids: array<vec4u>;
@group(0) @binding(5) var<uniform> params: Params;

const_assert MAX_EXPERTS % WORKGROUP_SIZE == 0u;

// Digit-major: the count of digit d in the run of invocation i is at d * WORKGROUP_SIZE + i.
var<workgroup> counts: array<u32, CELLS>;
var<workgroup> expert_pairs: array<atomic<u32>, MAX_EXPERTS>;

// Pair number `i` of the order that pass `pass_index` starts from.
fn pair_at(pass_index: u32, i: u32) -> u32 {
  if pass_index == 0u { return params.first_pair + i; }
  if ((params.passes - pass_index) & 1u) == 1u { return scratch[i]; }
  return sorted_pairs[i];
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(local_invocation_index) invocation: u32) {
  let run = (params.pairs + WORKGROUP_SIZE - 1u) / WORKGROUP_SIZE;
  let first = min(invocation * run, params.pairs);
  let end = min(first + run, params.pairs);
  for (var i = first; i < end; i++) { atomicAdd(&expert_pairs[experts[params.first_pair + i]], 1u); }

  // Cells that an invocation scans. Loops over them do not start from 0: compilers would write them
  // out, and take long.
  let first_cell = invocation * DIGITS;
  for (var pass_index = 0u; pass_index < params.passes; pass_index++) {
    let shift = pass_index * DIGIT_BITS;
    for (var cell = invocation; cell < CELLS; cell += WORKGROUP_SIZE) { counts[cell] = 0u; }
    for (var i = first; i < end; i++) {
      let digit = (experts[pair_at(pass_index, i)] >> shift) % DIGITS;
      counts[digit * WORKGROUP_SIZE + invocation] += 1u;
    }
    workgroupBarrier();

    var total = 0u;
    for (var cell = first_cell; cell < first_cell + DIGITS; cell++) { total += counts[cell]; }
    var place = sum_before(invocation, vec2u(total, 0u)).x;
    for (var cell = first_cell; cell < first_cell + DIGITS; cell++) {
      let count = counts[cell];
      counts[cell] = place;
      place += count;
    }
    workgroupBarrier();

    for (var i = first; i < end; i++) {
      let pair = pair_at(pass_index, i);
      let cell = ((experts[pair] >> shift) % DIGITS) * WORKGROUP_SIZE + invocation;
      let target_index = counts[cell];
      counts[cell] = target_index + 1u;
      if ((params.passes - pass_index) & 1u) == 1u {
        sorted_pairs[target_index] = pair;
      } else {
        scratch[target_index] = pair;
      }
    }
    storageBarrier();
    workgroupBarrier();
  }

  // Experts that an invocation cuts in tiles. Not constant: compilers would write them all out.
  let first_expert = invocation * params.experts_each;
  var sums = vec2u(0u);
  for (var e = first_expert; e < first_expert + params.experts_each; e++) {
    let count = atomicLoad(&expert_pairs[e]);
    sums += vec2u(count, (count + params.tile_size - 1u) / params.tile_size);
  }
  var next = sum_before(invocation, sums);
  for (var e = first_expert; e < first_expert + params.experts_each; e++) {
    let count = atomicLoad(&expert_pairs[e]);
    for (var done = 0u; done < count; done += params.tile_size) {
      next.y += 1u;
      tiles[next.y] = vec4u(e, next.x + done, min(params.tile_size, count - done), 0u);
    }
    next.x += count;
  }
  if invocation == WORKGROUP_SIZE - 1u {
    tiles[0] = vec4u(next.y, 0u, 0u, 0u);
    for (var i = 0u; i < params.grids; i++) { grids[i].y = next.y; }
  }
}
