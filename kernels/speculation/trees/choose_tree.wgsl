// choose_tree: the best candidates of each sequence become nodes of its tree
//
//   pool     [sequences, pool_size]  Candidate  read   the first `count` of each
//   entries  [sequences]             Entry      read
//   ids      [..]                    u32        write  from first_id + sequence * 2 * nodes on: tokens
//                                                      of the nodes behind node 0, then their parents
//   ends     [sequences]             End        write  node 0, for rows that go on from it
//
// The `nodes` of the highest scores, ties to the lower number, in the order of their numbers. A
// candidate scores no more than its parent, which has a lower number, so it never comes without it.
//
// One workgroup per sequence.

const WORKGROUP_SIZE = 64u;
const BEST_BLOCK = 8u;
const MAX_NODES = 64u;
const NO_PARENT = 0xffffffffu;
const NOBODY = 0xffffffffu;

struct Params {
  count: u32,
  pool_size: u32,
  nodes: u32,
  first_id: u32,
}

// The candidate of grow_beams.wgsl.
struct Candidate {
  score: f32,
  token: u32,
  parent: u32,
}

struct End {
  drafts: u32,
  token: u32,
  position: u32,
}

@group(0) @binding(0) var<storage, read> pool: array<Candidate>;
@group(0) @binding(1) var<storage, read> entries: array<Entry>;
@group(0) @binding(2) var<storage, read_write> ids: array<u32>;
@group(0) @binding(3) var<storage, read_write> ends: array<End>;
@group(0) @binding(4) var<uniform> params: Params;

const_assert BEST_BLOCK * BEST_BLOCK == WORKGROUP_SIZE;

// By rank: the numbers of the candidates that become nodes.
var<workgroup> chosen: array<u32, MAX_NODES>;

// The best of an invocation's candidates that comes after `last`: (bits of its score, number).
fn best_after(invocation: u32, first: u32, last: vec2u) -> vec2u {
  var best = vec2u(0u, NOBODY);
  for (var c = invocation; c < params.count; c += WORKGROUP_SIZE) {
    // Of what is not negative, bits have the order of values.
    let key = bitcast<u32>(pool[first + c].score);
    if beats(last.x, last.y, key, c) { best = better_of(best, vec2u(key, c)); }
  }
  return best;
}

// How many nodes have lower numbers.
fn nodes_before(candidate: u32) -> u32 {
  var before = 0u;
  for (var i = 0u; i < params.nodes; i++) { before += u32(chosen[i] < candidate); }
  return before;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let first = group.x * params.pool_size;
  var own = best_after(invocation, first, vec2u(NOBODY, 0u));
  for (var i = 0u; i < params.nodes; i++) {
    let best = workgroup_best(invocation, own);
    if invocation == 0u { chosen[i] = best.y; }
    if best.y % WORKGROUP_SIZE == invocation { own = best_after(invocation, first, best); }
  }
  workgroupBarrier();
  if invocation == 0u {
    let entry = entries[group.x];
    ends[group.x] = End(params.nodes, entry.token, entry.next);
  }
  if invocation >= params.nodes { return; }
  let candidate = chosen[invocation];
  let parent = pool[first + candidate].parent;
  let out = params.first_id + group.x * 2u * params.nodes + nodes_before(candidate);
  ids[out] = pool[first + candidate].token;
  var above = 0u;
  if parent != NO_PARENT { above = 1u + nodes_before(parent); }
  ids[out + params.nodes] = above;
}
