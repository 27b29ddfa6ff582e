// accept_rows: which row of a sequence is the last that its drawn tokens agree with
//
//   entries     [sequences]  Entry  read
//   logit_rows  [..]         u32    read    rows of the step, in the order of their logits
//   rows        [..]         Row    read    rows of the step
//   sampled     [..]         u32    read    tokens drawn from the logits, in their order
//   last_rows   [sequences]  u32    write   row of the step: the last accepted one
//   next_rows   [sequences]  Row    write   the same row, without a source
//   ends        [sequences]  End    write   no drafts yet, and the token drawn from that row
//   draws       [sequences]  Draw   read_write  .position: that of the first draft
//
// One invocation per sequence. Its rows that have logits stand one behind the other: that of its
// newest token, then drafts. A draft is accepted where it is the token drawn at the row before it,
// and all drafts before it are accepted.

const WORKGROUP_SIZE = 64u;

struct Params {
  sequences: u32,
}

// `first` of `count` rows of logits; its pages have room for `positions`.
struct Entry {
  first: u32,
  count: u32,
  positions: u32,
  unused: u32,
}

// Drafts of a sequence, and its newest token.
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
@group(0) @binding(1) var<storage, read> logit_rows: array<u32>;
@group(0) @binding(2) var<storage, read> rows: array<Row>;
@group(0) @binding(3) var<storage, read> sampled: array<u32>;
@group(0) @binding(4) var<storage, read_write> last_rows: array<u32>;
@group(0) @binding(5) var<storage, read_write> next_rows: array<Row>;
@group(0) @binding(6) var<storage, read_write> ends: array<End>;
@group(0) @binding(7) var<storage, read_write> draws: array<Draw>;
@group(0) @binding(8) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) global: vec3u) {
  let sequence = global.x;
  if sequence >= params.sequences { return; }
  let entry = entries[sequence];
  var last = entry.first;
  for (var i = 1u; i < entry.count; i++) {
    let draft = rows[logit_rows[entry.first + i]].source;
    if draft != sampled[last] { break; }
    last = entry.first + i;
  }
  let row = logit_rows[last];
  last_rows[sequence] = row;
  next_rows[sequence] = Row(0u, rows[row].position, rows[row].slot, rows[row].first_page);
  let position = rows[row].position;
  ends[sequence] = End(0u, sampled[last], position + 1u);
  draws[sequence].position = position + 2u;
}
