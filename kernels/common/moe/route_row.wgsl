// How one row of router logits picks its experts: what moe/route and moe/route_sort have in common.
// The TEAM invocations of a team route a row; a workgroup has TEAMS of them, each with a row of its
// own.
//
// An expert's rank is the number of experts that beat it, so the ranks are known after one barrier and
// each pick goes straight to its slot: nothing is sorted. Choices are compared as integers in the
// order of the floats, in which even NaN has its place (the last), so the ranks are always a
// permutation.
//
// An expert may have several slots: `placement` has `tables` lists of one each. Rows take lists in turn,
// or by their logit of the expert, whatever else is in the batch.
//
// Needs ordered_bits.wgsl, the bindings `logits`, `bias`, `placement`, `chosen`, `weights` and
// `hits`, the fields of `params` that moe/route has, and picked(row, expert), which is called for each
// pick, shared ones too.

const TEAM = 64u;
const TEAMS = 1u;
const WORKGROUP_SIZE = TEAM * TEAMS;
// Of a team.
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
const TABLES_BY_LOGIT = 1u;
const TABLES = 0u;
// Made-up choices: a logit says which of 256 numbers from 5 to 10 stands for it.
const FAKE = false;
const MIN_WEIGHT_SUM = 1e-20;
var<workgroup> team_values: array<f32, WORKGROUP_SIZE>;
var<workgroup> scores: array<f32, TEAMS * MAX_EXPERTS>;
// First the bits of each choice, then its key.
var<workgroup> keys: array<u32, TEAMS * MAX_EXPERTS>;
var<workgroup> group_keys: array<u32, TEAMS * MAX_GROUPS>;
var<workgroup> picked_scores: array<f32, TEAMS * MAX_TOP_K>;

// A number that looks random: the finalizer of MurmurHash3 (A. Appleby).
fn scrambled(value: u32) -> u32 {
  var bits = (value ^ (value >> 16u)) * 0x85ebca6bu;
  bits = (bits ^ (bits >> 13u)) * 0xc2b2ae35u;
  return bits ^ (bits >> 16u);
}

fn logit_at(first: u32, e: u32) -> f32 {
  if !FAKE { return logits[first + e]; }
  return 5.0 + f32(scrambled(bitcast<u32>(logits[first + e]) + e) >> 24u) * (5.0 / 256.0);
}

// The slot that a row goes to for an expert.
fn slot_of(row: u32, e: u32) -> u32 {
  var table = row;
  if TABLES == TABLES_BY_LOGIT { table = scrambled(bitcast<u32>(logits[row * params.stride + e])); }
  return placement[(table % params.tables) * params.experts + e];
}

fn choice_of(e: u32) -> f32 {
  return bitcast<f32>(keys[e]);
}

// Of `size` experts from `first` on.
fn group_worth(first: u32, size: u32) -> f32 {
  var best = NEGATIVE_MAX;
  var second = NEGATIVE_MAX;
  for (var e = first; e < first + size; e++) {
    let choice = choice_of(e);
    second = max(second, min(best, choice));
    best = max(best, choice);
  }
  if GROUPING == GROUP_BY_BEST || size == 1u { return best; }
  return best + second;
}

fn largest_of_team(team: u32) -> f32 {
  var most = NEGATIVE_MAX;
  for (var i = 0u; i < TEAM; i++) { most = max(most, team_values[team * TEAM + i]); }
  return most;
}

fn sum_of_team(team: u32) -> f32 {
  var sums = vec4f(0.0);
  for (var i = team * TEAM; i < (team + 1u) * TEAM; i += 4u) {
    sums += vec4f(
      team_values[i], team_values[i + 1u], team_values[i + 2u], team_values[i + 3u],
    );
  }
  return (sums.x + sums.y) + (sums.z + sums.w);
}

// Routes a row of logits, in uniform control flow. With `is_own` false a team works on a row of another
// one, and writes nothing.
fn route_row(row: u32, invocation: u32, is_own: bool) {
  let team = invocation / TEAM;
  let lane = invocation % TEAM;
  let own = team * MAX_EXPERTS;
  let own_group = team * MAX_GROUPS;
  let first_logit = row * params.stride;
  let count = params.experts;

  var most = 0.0;
  if SCORING == SOFTMAX {
    most = NEGATIVE_MAX;
    for (var e = lane; e < count; e += TEAM) { most = max(most, logit_at(first_logit, e)); }
    team_values[invocation] = most;
    workgroupBarrier();
    most = largest_of_team(team);
    workgroupBarrier();
  }

  var sum = 0.0;
  for (var e = lane; e < count; e += TEAM) {
    let logit = logit_at(first_logit, e);
    if SCORING == SOFTMAX {
      scores[own + e] = exp(logit - most);
      sum += scores[own + e];
    } else {
      scores[own + e] = 1.0 / (1.0 + exp(-logit));
    }
  }
  var total = 1.0;
  if SCORING == SOFTMAX {
    team_values[invocation] = sum;
    workgroupBarrier();
    total = sum_of_team(team);
  }

  for (var e = lane; e < count; e += TEAM) {
    scores[own + e] /= total;
    var choice = scores[own + e];
    if BIAS { choice += bias[e]; }
    keys[own + e] = bitcast<u32>(choice);
  }
  workgroupBarrier();

  let size = count / params.groups;
  for (var g = lane; g < params.groups; g += TEAM) {
    if GROUPING != GROUPS_IGNORED {
      group_keys[own_group + g] = ordered_bits(group_worth(own + g * size, size));
    }
  }
  workgroupBarrier();

  for (var e = lane; e < count; e += TEAM) {
    var key = ordered_bits(choice_of(own + e));
    if GROUPING != GROUPS_IGNORED {
      let group = e / size;
      var better = 0u;
      for (var g = 0u; g < params.groups; g++) {
        better += u32(beats(group_keys[own_group + g], g, group_keys[own_group + group], group));
      }
      if better >= params.kept_groups { key = 0u; }
    }
    keys[own + e] = key;
  }
  workgroupBarrier();

  let slots = params.top_k + params.shared_count;
  let first = row * slots;
  let first_pick = team * MAX_TOP_K;
  let counted = atomicLoad(&hits[0]);
  for (var e = lane; e < count; e += TEAM) {
    let key = keys[own + e];
    var rank = 0u;
    for (var other = 0u; other < count; other++) {
      rank += u32(beats(keys[own + other], other, key, e));
    }
    if rank < params.top_k {
      picked_scores[first_pick + rank] = scores[own + e];
      if is_own {
        let slot = slot_of(row, e);
        chosen[first + rank] = slot;
        if row < counted { atomicAdd(&hits[params.first_hit + e], 1u); }
        picked(row, slot);
      }
    }
  }
  workgroupBarrier();

  var weight_sum = 0.0;
  for (var k = 0u; k < params.top_k; k++) { weight_sum += picked_scores[first_pick + k]; }
  let scale = select(1.0, 1.0 / (weight_sum + MIN_WEIGHT_SUM), NORMALIZE);
  for (var slot = lane; slot < slots; slot += TEAM) {
    if !is_own { break; }
    if slot < params.top_k {
      weights[first + slot] = picked_scores[first_pick + slot] * scale * params.scaling;
    } else {
      let expert = params.shared_first + (slot - params.top_k);
      weights[first + slot] = 1.0;
      chosen[first + slot] = expert;
      picked(row, expert);
    }
  }
}
