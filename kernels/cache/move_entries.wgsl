// move_entries: moves cache entries of sequences to slots that stand before them, word by word
//
//   cache[to(m)] = cache[from(m)], for each move m of a run in turn
//
//   runs   [runs]          vec2u  read   first move, count: moves of one sequence
//   moves  [moves]         vec2u  read   slots from and to
//   cache  [slots, words]  u32    both   entries of any format
//
// Grid (WORKGROUP_SIZE words of an entry, run). An invocation moves one word of all entries of a run,
// in order, and no other invocation reads or writes these words: an entry that is read by one move
// and written by a later one needs no barrier.

const WORKGROUP_SIZE = 64u;

struct Params {
  words: u32,
}

@group(0) @binding(0) var<storage, read> runs: array<vec2u>;
@group(0) @binding(1) var<storage, read> moves: array<vec2u>;
@group(0) @binding(2) var<storage, read_write> cache: array<u32>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let word = group.x * WORKGROUP_SIZE + invocation;
  if word >= params.words { return; }
  let run = runs[group.y];
  for (var m = run.x; m < run.x + run.y; m++) {
    cache[moves[m].y * params.words + word] = cache[moves[m].x * params.words + word];
  }
}
