// start_trees: the row behind the accepted path of each sequence, of the token drawn there
//
//   entries      [sequences]  Entry  read_write  .position: of the path's end; then of that row
//   rows         [sequences]  Row    write
//   page_tables  [..]         u32    read_write  from first_path on: paths of the rows, of no tree
//
// One invocation per sequence. Where there is no further place or position the row becomes one of
// padding.

const WORKGROUP_SIZE = 64u;
const NO_TREE = 0xffffffffu;
const PATH_WORDS = 8u;

struct Params {
  sequences: u32,
  page_size: u32,
  max_positions: u32,
  padding_slot: u32,
  padding_page: u32,
  first_path: u32,
}

struct Row {
  source: u32,
  position: u32,
  slot: u32,
  path: u32,
}

@group(0) @binding(0) var<storage, read_write> entries: array<Entry>;
@group(0) @binding(1) var<storage, read_write> rows: array<Row>;
@group(0) @binding(2) var<storage, read_write> page_tables: array<u32>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) global: vec3u) {
  let sequence = global.x;
  if sequence >= params.sequences { return; }
  let entry = entries[sequence];
  let position = entry.next;
  entries[sequence].position = position;
  let has_room = position < min(entry.places, params.max_positions);
  let path = params.first_path + sequence * PATH_WORDS;
  page_tables[path] = select(params.padding_page, entry.first_page, has_room);
  page_tables[path + 1u] = NO_TREE;
  for (var word = 2u; word < PATH_WORDS; word++) { page_tables[path + word] = 0u; }
  var row = Row(entry.token, 0u, params.padding_slot, path);
  if has_room {
    let page = page_tables[entry.first_page + position / params.page_size];
    row.position = position;
    row.slot = page * params.page_size + position % params.page_size;
  }
  rows[sequence] = row;
}
