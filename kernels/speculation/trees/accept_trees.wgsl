// accept_trees: which path of each sequence's tree the drawn tokens follow, and how its entries move
//
//   entries     [sequences]             Entry  read_write  from .last_row on: the path's end, no step
//                                                          yet, the token drawn there
//   parents     [..]                    u32    read        by row of logits: the node above its own
//   logit_rows  [..]                    u32    read        rows of the step, in the order of logits
//   rows        [..]                    Row    read        rows of the step
//   sampled     [..]                    u32    read        tokens drawn from the logits
//   last_rows   [sequences]             u32    write       row of the step: the path's last node
//   runs        [sequences]             vec2u  write       first move, count
//   moves       [sequences, MAX_DEPTH]  vec2u  write       slots from and to
//
// One invocation per sequence. Its rows that have logits stand one behind the other: nodes of a tree,
// parents before their children, the newest token first; a sequence without drafts has that node only.
// A draft is accepted where it is the token drawn at its parent, and its parent is accepted. The entry
// of the node at depth d is moved to where that of node d is.

const WORKGROUP_SIZE = 64u;
const MAX_DEPTH = 16u;

struct Params {
  sequences: u32,
}

struct Row {
  source: u32,
  position: u32,
  slot: u32,
  first_page: u32,
}

@group(0) @binding(0) var<storage, read_write> entries: array<Entry>;
@group(0) @binding(1) var<storage, read> parents: array<u32>;
@group(0) @binding(2) var<storage, read> logit_rows: array<u32>;
@group(0) @binding(3) var<storage, read> rows: array<Row>;
@group(0) @binding(4) var<storage, read> sampled: array<u32>;
@group(0) @binding(5) var<storage, read_write> last_rows: array<u32>;
@group(0) @binding(6) var<storage, read_write> runs: array<vec2u>;
@group(0) @binding(7) var<storage, read_write> moves: array<vec2u>;
@group(0) @binding(8) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) global: vec3u) {
  let sequence = global.x;
  if sequence >= params.sequences { return; }
  let first = entries[sequence].first;
  let count = entries[sequence].count;
  let first_move = sequence * MAX_DEPTH;
  var last = 0u;
  var depth = 0u;
  var moved = 0u;
  for (var node = 1u; node < count; node++) {
    let row = logit_rows[first + node];
    if parents[first + node] != last || rows[row].source != sampled[first + last] { continue; }
    last = node;
    depth += 1u;
    if depth == node { continue; }
    moves[first_move + moved] = vec2u(rows[row].slot, rows[logit_rows[first + depth]].slot);
    moved += 1u;
  }
  let last_row = logit_rows[first + last];
  runs[sequence] = vec2u(first_move, moved);
  last_rows[sequence] = last_row;
  entries[sequence].last_row = last_row;
  entries[sequence].position = rows[last_row].position;
  entries[sequence].step = 0u;
  entries[sequence].token = sampled[first + last];
  entries[sequence].next = rows[last_row].position + 1u;
}
