// start_rows: the row behind the last accepted one of each sequence, of the token drawn there
//
//   entries      [sequences]  Entry  read
//   page_tables  [..]         u32    read
//   ends         [sequences]  End    read        what accept_rows has left
//   rows         [sequences]  Row    read_write  the last accepted row; then the one behind it
//
// One invocation per sequence. Where its pages hold no further position the row becomes one of
// padding.

const WORKGROUP_SIZE = 64u;

struct Params {
  sequences: u32,
  page_size: u32,
  padding_slot: u32,
  padding_page: u32,
}

// The entry of accept_rows.wgsl, of which this needs one word.
struct Entry {
  first: u32,
  count: u32,
  positions: u32,
  unused: u32,
}

// The end of accept_rows.wgsl, of which this needs one word.
struct End {
  drafts: u32,
  token: u32,
  position: u32,
}

struct Row {
  source: u32,
  position: u32,
  slot: u32,
  first_page: u32,
}

@group(0) @binding(0) var<storage, read> entries: array<Entry>;
@group(0) @binding(1) var<storage, read> page_tables: array<u32>;
@group(0) @binding(2) var<storage, read> ends: array<End>;
@group(0) @binding(3) var<storage, read_write> rows: array<Row>;
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) global: vec3u) {
  let sequence = global.x;
  if sequence >= params.sequences { return; }
  let token = ends[sequence].token;
  let first_page = rows[sequence].first_page;
  let position = rows[sequence].position + 1u;
  if first_page == params.padding_page || position >= entries[sequence].positions {
    rows[sequence] = Row(token, 0u, params.padding_slot, params.padding_page);
    return;
  }
  let page = page_tables[first_page + position / params.page_size];
  let slot = page * params.page_size + position % params.page_size;
  rows[sequence] = Row(token, position, slot, first_page);
}
