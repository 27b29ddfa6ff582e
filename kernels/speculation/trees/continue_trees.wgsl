// continue_trees: gives rows that are nodes of the step before's trees what only the GPU knows of them
//
//   continued    [rows]  Continued  read
//   ends         [..]    End        read        node 0 of each tree, as choose_tree has left it
//   ids          [..]    u32        read        tokens and parents of the other nodes
//   rows         [rows]  Row        read_write  all but .path
//   page_tables  [..]    u32        read_write  the paths of rows, but for their first words
//   parents      [..]    u32        write       by row of logits: the node above its own
//   draws        [..]    Draw       read_write  .position
//
// One invocation per row. Node n has entry n behind those of the sequence and stands at its depth; what
// is drawn from its logits, one position on (tree_paths.ts).

const WORKGROUP_SIZE = 64u;
const STAYS = 0xffffffffu;
const PATH_WORDS = 8u;
const MAX_DEPTH = 16u;
const NODES_AT = 2u;

struct Params {
  rows: u32,
  page_size: u32,
}

// `end` says whose row it is: STAYS for one that the host has written. The row is node `node`; those
// behind node 0 have their tokens from `tokens` on in `ids`, their parents from `parents` on.
struct Continued {
  end: u32,
  node: u32,
  tokens: u32,
  parents: u32,
  logit_row: u32,
}

struct End {
  drafts: u32,
  token: u32,
  position: u32,
}

struct Row {
  source: u32,
  position: u32,
  slot: u32,
  path: u32,
}

// The draw of sample.wgsl, of which this needs one word.
struct Draw {
  others: array<u32, 5>,
  position: u32,
}

@group(0) @binding(0) var<storage, read> continued: array<Continued>;
@group(0) @binding(1) var<storage, read> ends: array<End>;
@group(0) @binding(2) var<storage, read> ids: array<u32>;
@group(0) @binding(3) var<storage, read_write> rows: array<Row>;
@group(0) @binding(4) var<storage, read_write> page_tables: array<u32>;
@group(0) @binding(5) var<storage, read_write> parents: array<u32>;
@group(0) @binding(6) var<storage, read_write> draws: array<Draw>;
@group(0) @binding(7) var<uniform> params: Params;

// The node above another one than node 0.
fn above(entry: Continued, node: u32) -> u32 { return ids[entry.parents + node - 1u]; }

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) global: vec3u) {
  let row = global.x;
  if row >= params.rows { return; }
  let entry = continued[row];
  if entry.end == STAYS { return; }
  let end = ends[entry.end];

  var depth = 0u;
  for (var node = entry.node; node > 0u && depth < MAX_DEPTH; node = above(entry, node)) {
    depth += 1u;
  }
  var words = array<u32, PATH_WORDS>();
  var node = entry.node;
  for (var left = depth; left > 0u; left--) {
    words[NODES_AT + left / 4u] |= node << (8u * (left % 4u));
    node = above(entry, node);
  }
  let path = rows[row].path;
  page_tables[path + 1u] = end.position;
  for (var word = NODES_AT; word < PATH_WORDS; word++) { page_tables[path + word] = words[word]; }

  var token = end.token;
  if entry.node > 0u {
    token = ids[entry.tokens + entry.node - 1u];
    parents[entry.logit_row] = above(entry, entry.node);
  }
  let position = end.position + depth;
  let place = end.position + entry.node;
  let page = page_tables[page_tables[path] + place / params.page_size];
  rows[row] = Row(token, position, page * params.page_size + place % params.page_size, path);
  draws[entry.logit_row].position = position + 1u;
}
