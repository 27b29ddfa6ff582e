// route: picks `top_k` experts for every row of router logits and weighs them
//
//   logits     [rows, stride]   f32  read
//   bias       [experts]        f32  read   BIAS: added to the score for the choice only
//   placement  [experts]        u32  read   logical expert -> physical expert
//   chosen     [rows, slots]    u32  write  physical experts, best first, then the shared ones
//   weights    [rows, slots]    f32  write  score without bias (NORMALIZE: over their sum) times
//                                           `scaling`; 1 for shared experts
//   hits       [experts]        u32  add    how often each logical expert was picked
//
// score = SIGMOID or SOFTMAX of the logits. With GROUP_BY_* only the experts of the `kept_groups`
// best of `groups` groups stand; a group's worth is its best choice or the sum of its two best.
// Ties go to the lowest index.
//
// One workgroup per row. An expert's rank is the number of experts that beat it, so the ranks are
// known after one barrier and each pick goes straight to its slot: nothing is sorted. Choices are
// compared as integers in the order of the floats, in which even NaN has its place (the last), so
// the ranks are always a permutation.
//
// Source: DeepSeek-V3 technical report (2024), section 2.1.2; DeepSeek-V2 (2024), section 2.2.

const WORKGROUP_SIZE = 64u;
const MAX_EXPERTS = 1024u;
const MAX_GROUPS = 64u;
const MAX_TOP_K = 64u;
const SIGMOID = 0u;
const SOFTMAX = 1u;
const SCORING = 0u;
const GROUPS_IGNORED = 0u;
const GROUP_BY_TWO_BEST = 1u;
const GROUP_BY_BEST = 2u;
const GROUPING = 1u;
const BIAS = true;
const NORMALIZE = true;
const MIN_WEIGHT_SUM = 1e-20;

struct Params {
  experts: u32,
  stride: u32,
  top_k: u32,
  groups: u32,
  kept_groups: u32,
  shared_first: u32,
  shared_count: u32,
  scaling: f32,
}

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> bias: array<f32>;
@group(0) @binding(2) var<storage, read> placement: array<u32>;
@group(0) @binding(3) var<storage, read_write> chosen: array<u32>;
@group(0) @binding(4) var<storage, read_write> weights: array<f32>;
@group(0) @binding(5) var<storage, read_write> hits: array<atomic<u32>>;
@group(0) @binding(6) var<uniform> params: Params;

var<workgroup> largest: array<f32, WORKGROUP_SIZE>;
var<workgroup> scores: array<f32, MAX_EXPERTS>;
var<workgroup> choices: array<f32, MAX_EXPERTS>;
var<workgroup> keys: array<u32, MAX_EXPERTS>;
var<workgroup> group_keys: array<u32, MAX_GROUPS>;
var<workgroup> picked_scores: array<f32, MAX_TOP_K>;

fn group_worth(g: u32, size: u32) -> f32 {
  var best = NEGATIVE_MAX;
  var second = NEGATIVE_MAX;
  for (var e = g * size; e < (g + 1u) * size; e++) {
    let choice = choices[e];
    second = max(second, min(best, choice));
    best = max(best, choice);
  }
  if GROUPING == GROUP_BY_BEST || size == 1u { return best; }
  return best + second;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let row = group.x * params.stride;
  let count = params.experts;

  var most = NEGATIVE_MAX;
  for (var e = invocation; e < count; e += WORKGROUP_SIZE) { most = max(most, logits[row + e]); }
  largest[invocation] = most;
  workgroupBarrier();
  for (var i = 0u; i < WORKGROUP_SIZE; i++) { most = max(most, largest[i]); }

  var sum = 0.0;
  for (var e = invocation; e < count; e += WORKGROUP_SIZE) {
    let logit = logits[row + e];
    if SCORING == SOFTMAX {
      scores[e] = exp(logit - most);
      sum += scores[e];
    } else {
      scores[e] = 1.0 / (1.0 + exp(-logit));
    }
  }
  let total = select(1.0, row_sum(invocation, sum), SCORING == SOFTMAX);

  for (var e = invocation; e < count; e += WORKGROUP_SIZE) {
    scores[e] /= total;
    choices[e] = scores[e];
    if BIAS { choices[e] += bias[e]; }
  }
  workgroupBarrier();

  let size = count / params.groups;
  for (var g = invocation; g < params.groups; g += WORKGROUP_SIZE) {
    if GROUPING != GROUPS_IGNORED { group_keys[g] = ordered_bits(group_worth(g, size)); }
  }
  workgroupBarrier();

  for (var e = invocation; e < count; e += WORKGROUP_SIZE) {
    var key = ordered_bits(choices[e]);
    if GROUPING != GROUPS_IGNORED {
      let own = e / size;
      var better = 0u;
      for (var g = 0u; g < params.groups; g++) {
        better += u32(beats(group_keys[g], g, group_keys[own], own));
      }
      if better >= params.kept_groups { key = 0u; }
    }
    keys[e] = key;
  }
  workgroupBarrier();

  let slots = params.top_k + params.shared_count;
  let first = group.x * slots;
  for (var e = invocation; e < count; e += WORKGROUP_SIZE) {
    let key = keys[e];
    var rank = 0u;
    for (var other = 0u; other < count; other++) { rank += u32(beats(keys[other], other, key, e)); }
    if rank < params.top_k {
      picked_scores[rank] = scores[e];
      chosen[first + rank] = placement[e];
      atomicAdd(&hits[e], 1u);
    }
  }
  workgroupBarrier();

  var weight_sum = 0.0;
  for (var k = 0u; k < params.top_k; k++) { weight_sum += picked_scores[k]; }
  let scale = select(1.0, 1.0 / (weight_sum + MIN_WEIGHT_SUM), NORMALIZE);
  for (var slot = invocation; slot < slots; slot += WORKGROUP_SIZE) {
    if slot < params.top_k {
      weights[first + slot] = picked_scores[slot] * scale * params.scaling;
    } else {
      weights[first + slot] = 1.0;
      chosen[first + slot] = params.shared_first + (slot - params.top_k);
    }
  }
}
