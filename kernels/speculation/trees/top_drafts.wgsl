// top_drafts: the `topk` likeliest tokens of softmax(logits[r, :]), with their probabilities
//
//   logits         [rows, stride]  f32  read   the first `vocabulary` of each row
//   tokens         [rows, topk]    u32  write
//   probabilities  [rows, topk]    f32  write
//
// In descending order, ties to the lowest index. NaN counts as -inf, which has no probability, and
// comes last; so has a row of nothing else.
//
// One workgroup per row. Each invocation offers the best of its own tokens that has not been taken;
// the invocation whose token is taken looks for its next one.

const WORKGROUP_SIZE = 256u;
const BEST_BLOCK = 16u;
const KEY_NEGATIVE_INFINITY = 0x00800000u;
const NOBODY = 0xffffffffu;

struct Params {
  vocabulary: u32,
  stride: u32,
  topk: u32,
}

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read_write> tokens: array<u32>;
@group(0) @binding(2) var<storage, read_write> probabilities: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;

const_assert BEST_BLOCK * BEST_BLOCK == WORKGROUP_SIZE;

// What a logit weighs beside the largest of its row.
fn weight(logit: f32, largest: f32) -> f32 {
  if ordered_bits(logit) <= KEY_NEGATIVE_INFINITY { return 0.0; }
  return exp(select(logit - largest, 0.0, logit == largest));
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
  let row = group.x * params.stride;
  let out = group.x * params.topk;
  var own = best_after(invocation, row, vec2u(NOBODY, 0u));
  var best = workgroup_best(invocation, own);
  let largest = logits[row + best.y];
  var sum = 0.0;
  for (var t = invocation; t < params.vocabulary; t += WORKGROUP_SIZE) {
    sum += weight(logits[row + t], largest);
  }
  let total = row_sum(invocation, sum);
  for (var i = 0u; i < params.topk; i++) {
    if best.y % WORKGROUP_SIZE == invocation {
      let own_weight = weight(logits[row + best.y], largest);
      tokens[out + i] = best.y;
      probabilities[out + i] = select(0.0, own_weight / total, own_weight > 0.0);
      own = best_after(invocation, row, best);
    }
    best = workgroup_best(invocation, own);
  }
}
