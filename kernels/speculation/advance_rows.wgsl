// advance_rows: notes the drafts of all sequences, and starts the rows behind them
//
//   entries      [sequences]  Entry  read
//   page_tables  [..]         u32    read
//   best         [sequences]  u32    read        the draft of each
//   rows         [sequences]  Row    read_write  the row that it was drafted from; then its own
//   ends         [sequences]  End    read_write  .drafts of each before and after this one
//   draws        [sequences]  Draw   read_write  .position: that of this draft; then of the next
//   ids          [..]         u32    write       ids[first_id + drafted * sequences + sequence]
//
// One invocation per sequence. Where its pages hold no further position the row becomes one of
// padding, and stays one.

const WORKGROUP_SIZE = 64u;

struct Params {
  sequences: u32,
  first_id: u32,
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

// The draw of sample.wgsl, of which this needs one word.
struct Draw {
  others: array<u32, 5>,
  position: u32,
}

@group(0) @binding(0) var<storage, read> entries: array<Entry>;
@group(0) @binding(1) var<storage, read> page_tables: array<u32>;
@group(0) @binding(2) var<storage, read> best: array<u32>;
@group(0) @binding(3) var<storage, read_write> rows: array<Row>;
@group(0) @binding(4) var<storage, read_write> ends: array<End>;
@group(0) @binding(5) var<storage, read_write> draws: array<Draw>;
@group(0) @binding(6) var<storage, read_write> ids: array<u32>;
@group(0) @binding(7) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) global: vec3u) {
  let sequence = global.x;
  if sequence >= params.sequences { return; }
  let draft = best[sequence];
  ids[params.first_id + ends[sequence].drafts * params.sequences + sequence] = draft;
  ends[sequence].drafts += 1u;
  draws[sequence].position += 1u;

  let first_page = rows[sequence].first_page;
  let position = rows[sequence].position + 1u;
  if first_page == params.padding_page || position >= entries[sequence].positions {
    rows[sequence] = Row(draft, 0u, params.padding_slot, params.padding_page);
    return;
  }
  let page = page_tables[first_page + position / params.page_size];
  let slot = page * params.page_size + position % params.page_size;
  rows[sequence] = Row(draft, position, slot, first_page);
}
