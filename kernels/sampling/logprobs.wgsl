// logprobs: of log softmax(logits[r, :] / temperature), for the rows in items: one token's value,
// the `top` largest with their tokens, and those of the tokens wanted
//
//   items   [items]         Item  read
//   ids     [rows]          u32   read    sampled tokens
//   wanted  [wanted]        u32   read    lists of tokens
//   logits  [rows, stride]  f32   read    the first `vocabulary` of each row
//   tokens  [results]       u32   write   what each value is of
//   values  [results]       f32   write
//
// An item's results start at `out`: the token, the largest in descending order (ties to the lowest
// index), the wanted ones. NaN counts as -inf, and -inf is written as the least finite number.
//
// One workgroup per item. Each invocation offers the best of its own tokens that has not been taken;
// the invocation whose token is taken looks for its next one.

const WORKGROUP_SIZE = 256u;
const BEST_BLOCK = 16u;
const KEY_NEGATIVE_INFINITY = 0x00800000u;
const SAMPLED = 0x40000000u;
const ROW_BITS = 0x3fffffffu;
const NOBODY = 0xffffffffu;

struct Params {
  vocabulary: u32,
  stride: u32,
}

struct Item {
  row: u32,
  // The token, or SAMPLED | row of `ids`.
  token: u32,
  temperature: f32,
  top: u32,
  first_wanted: u32,
  wanted_count: u32,
  out: u32,
}

@group(0) @binding(0) var<storage, read> items: array<Item>;
@group(0) @binding(1) var<storage, read> ids: array<u32>;
@group(0) @binding(2) var<storage, read> wanted: array<u32>;
@group(0) @binding(3) var<storage, read> logits: array<f32>;
@group(0) @binding(4) var<storage, read_write> tokens: array<u32>;
@group(0) @binding(5) var<storage, read_write> values: array<f32>;
@group(0) @binding(6) var<uniform> params: Params;

const_assert BEST_BLOCK * BEST_BLOCK == WORKGROUP_SIZE;

// (logit - largest) / temperature.
fn scaled(logit: f32, largest: f32, temperature: f32) -> f32 {
  return select((logit - largest) / temperature, 0.0, logit == largest);
}

fn write_result(at: u32, token: u32, item: Item, largest: f32, log_sum: f32) {
  let logit = logits[item.row * params.stride + token];
  // Large logits far apart, or a small temperature, give -inf as well.
  let value = scaled(logit, largest, item.temperature) - log_sum;
  let least_key = min(ordered_bits(logit), ordered_bits(value));
  tokens[at] = token;
  values[at] = select(NEGATIVE_MAX, value, least_key > KEY_NEGATIVE_INFINITY);
}

// The best of an invocation's tokens that comes after `last`: (key, token).
fn best_after(invocation: u32, row: u32, last: vec2u) -> vec2u {
  var best = vec2u(0u, NOBODY);
  for (var t = invocation; t < params.vocabulary; t += WORKGROUP_SIZE) {
    let key = ordered_bits(logits[row + t]);
    if beats(last.x, last.y, key, t) { best = better_of(best, vec2u(key, t)); }
  }
  return best;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let item = items[group.x];
  let row = item.row * params.stride;
  var own = best_after(invocation, row, vec2u(NOBODY, 0u));
  var best = workgroup_best(invocation, own);
  let largest = logits[row + best.y];

  var sum = 0.0;
  for (var t = invocation; t < params.vocabulary; t += WORKGROUP_SIZE) {
    let logit = logits[row + t];
    if ordered_bits(logit) <= KEY_NEGATIVE_INFINITY { continue; }
    sum += exp(scaled(logit, largest, item.temperature));
  }
  let log_sum = log(row_sum(invocation, sum));

  for (var i = 0u; i < items[group.x].top; i++) {
    if best.y % WORKGROUP_SIZE == invocation {
      write_result(item.out + 1u + i, best.y, item, largest, log_sum);
      own = best_after(invocation, row, best);
    }
    best = workgroup_best(invocation, own);
  }

  if invocation == 0u {
    var token = item.token;
    if (token & SAMPLED) != 0u { token = ids[token & ROW_BITS]; }
    write_result(item.out, token, item, largest, log_sum);
  }
  let first = item.out + 1u + item.top;
  for (var i = invocation; i < item.wanted_count; i += WORKGROUP_SIZE) {
    write_result(first + i, wanted[item.first_wanted + i], item, largest, log_sum);
  }
}
