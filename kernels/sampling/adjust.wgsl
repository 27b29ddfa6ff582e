// adjust: logits[r, :] changed in place by penalties, a token mask and biases, for the rows in items
//
//   items   [items]               Item   read
//   counts  [slots, vocabulary]   u32    read        bit 31: in the prompt; the rest: times generated
//   masks   [masks, mask_words]   u32    read        bit t % 32 of word t / 32: token t may come
//   biases  [biases]              vec2u  read        token, f32 bits of what is added; -inf forbids;
//                                                    in front of an item's biases its drafts, .x
//   logits  [rows, stride]        f32    read_write
//
// In this order: a token that occurs in the prompt or was generated has its logit divided by
// `repetition` (multiplied when negative); `frequency` times its count and, once it was generated,
// `presence` are taken off; masked tokens become -inf; biases are added, and -inf stays -inf.
//
// One workgroup for CHUNK tokens of one item. No token comes twice among an item's biases. Rows
// without an item cost nothing.

const WORKGROUP_SIZE = 64u;
const CHUNK = 2048u;
const NONE = 0xffffffffu;
const IN_PROMPT = 0x80000000u;
const MASK_BITS = 32u;
const NEGATIVE_INFINITY_BITS = 0xff800000u;

struct Params {
  vocabulary: u32,
  stride: u32,
  mask_words: u32,
  forbidden: f32,
}

struct Item {
  row: u32,
  // Of `counts`, or NONE.
  slot: u32,
  // Of `masks`, or NONE.
  mask: u32,
  first_bias: u32,
  bias_count: u32,
  repetition: f32,
  frequency: f32,
  presence: f32,
  // Entries of `biases` before first_bias that are tokens drafted in front of the row.
  draft_count: u32,
}

@group(0) @binding(0) var<storage, read> items: array<Item>;
@group(0) @binding(1) var<storage, read> counts: array<u32>;
@group(0) @binding(2) var<storage, read> masks: array<u32>;
@group(0) @binding(3) var<storage, read> biases: array<vec2u>;
@group(0) @binding(4) var<storage, read_write> logits: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

fn penalized(logit: f32, token: u32, item: Item) -> f32 {
  var seen = counts[item.slot * params.vocabulary + token];
  for (var d = item.first_bias - item.draft_count; d < item.first_bias; d++) {
    seen += u32(biases[d].x == token);
  }
  let generated = seen & ~IN_PROMPT;
  var value = logit;
  if seen != 0u { value = select(value / item.repetition, value * item.repetition, value < 0.0); }
  // Written as fma, so that no compiler rounds it once and another one twice.
  value = fma(-item.frequency, f32(generated), value);
  if generated > 0u { value -= item.presence; }
  return value;
}

fn is_masked(token: u32, item: Item) -> bool {
  let word = masks[item.mask * params.mask_words + token / MASK_BITS];
  return ((word >> (token % MASK_BITS)) & 1u) == 0u;
}

// Compares bits: a compiler may take it that there are no infinities.
fn biased(logit: f32, bias: u32) -> f32 {
  let forbidden = bias == NEGATIVE_INFINITY_BITS || bitcast<u32>(logit) == NEGATIVE_INFINITY_BITS;
  if forbidden { return params.forbidden; }
  return logit + bitcast<f32>(bias);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let item = items[group.y];
  let row = item.row * params.stride;
  let first = group.x * CHUNK;
  let end = min(first + CHUNK, params.vocabulary);

  let every_token = item.slot != NONE || item.mask != NONE;
  for (var t = first + invocation; t < select(first, end, every_token); t += WORKGROUP_SIZE) {
    var value = logits[row + t];
    if item.slot != NONE { value = penalized(value, t, item); }
    if item.mask != NONE && is_masked(t, item) { value = params.forbidden; }
    logits[row + t] = value;
  }
  storageBarrier();

  for (var i = invocation; i < item.bias_count; i += WORKGROUP_SIZE) {
    let bias = biases[item.first_bias + i];
    if bias.x >= first && bias.x < end { logits[row + bias.x] = biased(logits[row + bias.x], bias.y); }
  }
}
