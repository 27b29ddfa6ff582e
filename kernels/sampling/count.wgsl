// count: counts[slot, ids[row]] += 1 for the items that keep counts
//
//   items   [items]              Item   read
//   biases  [biases]             vec2u  read         in front of an item's: its drafts, and of each
//                                                    the row that is to sample it
//   ids     [rows]               u32    read         sampled tokens
//   counts  [slots, vocabulary]  u32    read_write
//
// One invocation per item. A row behind drafts counts where each of them is what its row sampled.
// Several items may have one slot.

const WORKGROUP_SIZE = 64u;
const NONE = 0xffffffffu;

struct Params {
  items: u32,
  vocabulary: u32,
}

// The item of adjust.wgsl.
struct Item {
  row: u32,
  slot: u32,
  mask: u32,
  first_bias: u32,
  bias_count: u32,
  repetition: f32,
  frequency: f32,
  presence: f32,
  draft_count: u32,
}

@group(0) @binding(0) var<storage, read> items: array<Item>;
@group(0) @binding(1) var<storage, read> biases: array<vec2u>;
@group(0) @binding(2) var<storage, read> ids: array<u32>;
@group(0) @binding(3) var<storage, read_write> counts: array<atomic<u32>>;
@group(0) @binding(4) var<uniform> params: Params;

fn is_accepted(item: Item) -> bool {
  for (var d = 0u; d < item.draft_count; d++) {
    let draft = biases[item.first_bias - item.draft_count + d];
    if ids[draft.y] != draft.x { return false; }
  }
  return true;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) global: vec3u) {
  if global.x >= params.items { return; }
  let item = items[global.x];
  if item.slot == NONE || !is_accepted(item) { return; }
  atomicAdd(&counts[item.slot * params.vocabulary + ids[item.row]], 1u);
}
