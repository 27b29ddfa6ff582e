// continue_rows: gives rows that go on from the step before what only the GPU knows of them
//
//   continued    [rows]  Continued  read
//   ends         [..]    End        read        what accept_rows has left of the step before
//   ids          [..]    u32        read        drafts of the step before
//   page_tables  [..]    u32        read
//   rows         [rows]  Row        read_write  all but .first_page
//   draws        [..]    Draw       read_write  .position
//
// One invocation per row. A row stands at its sequence's newest token, or at one of the drafts
// behind it; what is drawn from its logits, one position on.

const WORKGROUP_SIZE = 64u;
const STAYS = 0xffffffffu;

struct Params {
  rows: u32,
  page_size: u32,
}

// `end` says whose row it is: STAYS for one that the host has written. The row is number `draft` of
// its sequence, and from 1 on stands at the draft `id` of `ids`.
struct Continued {
  end: u32,
  draft: u32,
  id: u32,
  logit_row: u32,
}

// What accept_rows.wgsl leaves of a sequence.
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

@group(0) @binding(0) var<storage, read> continued: array<Continued>;
@group(0) @binding(1) var<storage, read> ends: array<End>;
@group(0) @binding(2) var<storage, read> ids: array<u32>;
@group(0) @binding(3) var<storage, read> page_tables: array<u32>;
@group(0) @binding(4) var<storage, read_write> rows: array<Row>;
@group(0) @binding(5) var<storage, read_write> draws: array<Draw>;
@group(0) @binding(6) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) global: vec3u) {
  let row = global.x;
  if row >= params.rows { return; }
  let entry = continued[row];
  if entry.end == STAYS { return; }
  let end = ends[entry.end];
  var token = end.token;
  if entry.draft > 0u { token = ids[entry.id]; }
  let position = end.position + entry.draft;
  let first_page = rows[row].first_page;
  let page = page_tables[first_page + position / params.page_size];
  let slot = page * params.page_size + position % params.page_size;
  rows[row] = Row(token, position, slot, first_page);
  draws[entry.logit_row].position = position + 1u;
}
