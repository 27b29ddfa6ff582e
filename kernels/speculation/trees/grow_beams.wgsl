// grow_beams: candidates of one step of drafts, and rows of the best of them
//
//   entries        [sequences]             Entry      read_write  .step: this one; then the next
//   probabilities  [sequences, .., topk]   f32        read        by beam: of its likeliest tokens
//   tokens         [sequences, .., topk]   u32        read
//   pool           [sequences, pool_size]  Candidate  read_write  of each step behind those before
//   beams          [sequences, topk]       u32        read_write  candidates that rows stand for
//   rows           [sequences, topk]       Row        write       of the module's next step
//   parent_rows    [sequences, topk]       u32        write       row of this step that each follows
//   page_tables    [..]                    u32        read_write  from first_path on: paths of the rows
//
// A candidate's score is the product of the probabilities on the way to it. The best `topk` of a step
// are the beams of the next, ties to the lower number. In the first step there is one beam, the last
// accepted row of the sequence, and no candidate has a parent.
//
// A row stands one position behind its parent. Beam b of step s has entry s * topk + b behind the
// accepted ones, and sees those and its own path (tree_paths.ts); where there is no such place or
// position, it becomes a row of padding, which drafts something all the same.
//
// One workgroup per sequence.

const WORKGROUP_SIZE = 64u;
const BEST_BLOCK = 8u;
const MAX_BEAMS = 64u;
const NO_PARENT = 0xffffffffu;
const NOBODY = 0xffffffffu;
const NO_TREE = 0xffffffffu;
const PATH_WORDS = 8u;
const NODES_AT = 2u;

struct Params {
  topk: u32,
  pool_size: u32,
  page_size: u32,
  max_positions: u32,
  padding_slot: u32,
  padding_page: u32,
  first_path: u32,
}

struct Candidate {
  score: f32,
  token: u32,
  parent: u32,
}

struct Row {
  source: u32,
  position: u32,
  slot: u32,
  path: u32,
}

@group(0) @binding(0) var<storage, read_write> entries: array<Entry>;
@group(0) @binding(1) var<storage, read> probabilities: array<f32>;
@group(0) @binding(2) var<storage, read> tokens: array<u32>;
@group(0) @binding(3) var<storage, read_write> pool: array<Candidate>;
@group(0) @binding(4) var<storage, read_write> beams: array<u32>;
@group(0) @binding(5) var<storage, read_write> rows: array<Row>;
@group(0) @binding(6) var<storage, read_write> parent_rows: array<u32>;
@group(0) @binding(7) var<storage, read_write> page_tables: array<u32>;
@group(0) @binding(8) var<uniform> params: Params;

const_assert BEST_BLOCK * BEST_BLOCK == WORKGROUP_SIZE;

// By rank: which candidate of this step is the next beam.
var<workgroup> chosen: array<u32, MAX_BEAMS>;

// The best of an invocation's candidates that comes after `last`: (bits of its score, number).
fn best_after(invocation: u32, first: u32, count: u32, last: vec2u) -> vec2u {
  var best = vec2u(0u, NOBODY);
  for (var c = invocation; c < count; c += WORKGROUP_SIZE) {
    // Of what is not negative, bits have the order of values.
    let key = bitcast<u32>(pool[first + c].score);
    if beats(last.x, last.y, key, c) { best = better_of(best, vec2u(key, c)); }
  }
  return best;
}

// The path of a row as its parent has it, and one node more.
fn path_word(word: u32, parent_path: u32, node: u32, step: u32) -> u32 {
  var before = 0u;
  if step > 0u { before = page_tables[parent_path + word]; }
  if word != NODES_AT + step / 4u { return before; }
  return before | (node << (8u * (step % 4u)));
}

fn slot_of(first_page: u32, place: u32) -> u32 {
  let page = page_tables[first_page + place / params.page_size];
  return page * params.page_size + place % params.page_size;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let sequence = group.x;
  let topk = params.topk;
  let entry = entries[sequence];
  let step = entry.step;
  var pool_start = 0u;
  if step > 0u { pool_start = topk + (step - 1u) * topk * topk; }
  let before = select(topk, 1u, step == 0u);
  let count = before * topk;
  let own_pool = sequence * params.pool_size;
  let first = own_pool + pool_start;
  for (var c = invocation; c < count; c += WORKGROUP_SIZE) {
    var above = 1.0;
    var parent = NO_PARENT;
    if step > 0u {
      parent = beams[sequence * topk + c / topk];
      above = pool[own_pool + parent].score;
    }
    // What is no probability must not raise a candidate above its parent.
    let probability = probabilities[sequence * count + c];
    let score = select(0.0, above * min(probability, 1.0), probability > 0.0);
    pool[first + c] = Candidate(score, tokens[sequence * count + c], parent);
  }
  // Other invocations read the tokens of those that are chosen.
  storageBarrier();

  var own = best_after(invocation, first, count, vec2u(NOBODY, 0u));
  for (var i = 0u; i < topk; i++) {
    let best = workgroup_best(invocation, own);
    if invocation == 0u { chosen[i] = best.y; }
    if best.y % WORKGROUP_SIZE == invocation { own = best_after(invocation, first, count, best); }
  }
  workgroupBarrier();

  let beam = min(invocation, topk - 1u);
  let candidate = chosen[beam];
  let parent_row = sequence * topk + candidate / topk;
  let node = step * topk + beam;
  let base = entry.position + 1u;
  var path = array<u32, PATH_WORDS>();
  for (var word = NODES_AT; word < PATH_WORDS; word++) {
    path[word] = path_word(word, params.first_path + parent_row * PATH_WORDS, node, step);
  }
  // The paths of parents are overwritten.
  storageBarrier();

  if invocation == 0u { entries[sequence].step = step + 1u; }
  if invocation >= topk { return; }
  let own_row = sequence * topk + beam;
  let own_path = params.first_path + own_row * PATH_WORDS;
  let token = pool[first + candidate].token;
  let place = base + node;
  let position = base + step;
  let has_room = place < entry.places && position < params.max_positions;
  path[0] = select(params.padding_page, entry.first_page, has_room);
  path[1] = select(NO_TREE, base, has_room);
  for (var word = 0u; word < PATH_WORDS; word++) { page_tables[own_path + word] = path[word]; }
  beams[own_row] = pool_start + candidate;
  parent_rows[own_row] = select(parent_row, entry.last_row, step == 0u);
  var row = Row(token, 0u, params.padding_slot, own_path);
  if has_room { row = Row(token, position, slot_of(entry.first_page, place), own_path); }
  rows[own_row] = row;
}
