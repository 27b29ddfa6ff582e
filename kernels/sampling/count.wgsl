// count: counts[slot, ids[row]] += 1 for the items that keep counts
//
//   items   [items]              Item  read
//   ids     [rows]               u32   read         sampled tokens
//   counts  [slots, vocabulary]  u32   read_write
//
// One invocation per item. No slot comes twice.

const WORKGROUP_SIZE = 64u;
const NONE = 0xffffffffu;

struct Params {
  items: u32,
  vocabulary: u32,
}

// The item of adjust.wgsl, of which this needs two words.
struct Item {
  row: u32,
  slot: u32,
  others: array<u32, 6>,
}

@group(0) @binding(0) var<storage, read> items: array<Item>;
@group(0) @binding(1) var<storage, read> ids: array<u32>;
@group(0) @binding(2) var<storage, read_write> counts: array<u32>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) global: vec3u) {
  if global.x >= params.items { return; }
  let slot = items[global.x].slot;
  if slot == NONE { return; }
  counts[slot * params.vocabulary + ids[items[global.x].row]] += 1u;
}
