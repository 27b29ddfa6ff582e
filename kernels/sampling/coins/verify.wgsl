// verify: ids[r] is a draft that follows row r, where a coin accepts one, else the token of sample.wgsl
//
//   logits      [rows, stride]  f32       read   the first `vocabulary` of each row
//   draws       [rows]          Draw      read
//   children    [rows]          Children  read   rows of logits that stand at drafts
//   logit_rows  [..]            u32       read   rows of the step, in the order of their logits
//   rows        [..]            Row       read   rows of the step: .source, a token id
//   ids         [rows]          u32       write
//
// A row's children stand at the drafts of one token, the one behind the row's; no two at the same. With
// q the share that a draft has of the kept tokens (kept_tokens.wgsl) and s the sum of q over it and the
// children before it, the first child is accepted for which coin < s / acc, or q >= single. If none is,
// the row has the token that sample.wgsl draws. A draft with a logit of -inf or NaN is forbidden: it is
// never accepted. A row of temperature 0 has its best token.
//
// The coin is even over [0, 1) and has its place by the token drawn: among the drafts where that is one
// (from s - q to s), above all of them else; where in there, a hash of seed and position of its own
// decides. So with `acc` and `single` of 1 the token drawn is right, and tokens behind refused drafts
// have the distribution that these leave.
//
// One workgroup per row. Shares are compared as whole numbers, as tokens are drawn.

const WORKGROUP_SIZE = 256u;
const BEST_BLOCK = 16u;
const NO_ROW = 0xffffffffu;
// 1e-9, in units of 2^-32.
const LEAST_ACC = 4u;

struct Params {
  vocabulary: u32,
  stride: u32,
  single: f32,
  acc: f32,
}

// Rows of logits, or NO_ROW: its first child, and the next child of its parent.
struct Children {
  first: u32,
  next: u32,
}

struct Row {
  source: u32,
  position: u32,
  slot: u32,
  first_page: u32,
}

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> draws: array<Draw>;
@group(0) @binding(2) var<storage, read> children: array<Children>;
@group(0) @binding(3) var<storage, read> logit_rows: array<u32>;
@group(0) @binding(4) var<storage, read> rows: array<Row>;
@group(0) @binding(5) var<storage, read_write> ids: array<u32>;
@group(0) @binding(6) var<uniform> params: Params;

const_assert BEST_BLOCK * BEST_BLOCK == WORKGROUP_SIZE;

// The token that sample.wgsl draws.
var<workgroup> drawn: u32;

fn draft_of(child: u32) -> u32 { return rows[logit_rows[child]].source; }

// Whether a draft is a token, and not forbidden.
fn may_come(row: u32, token: u32) -> bool {
  return token < params.vocabulary && ordered_bits(logits[row + token]) > KEY_NEGATIVE_INFINITY;
}

// What a token weighs among the kept ones, once runs are settled.
fn kept_weight(row: u32, token: u32, kept: Kept, draw: Draw) -> u32 {
  if token >= params.vocabulary { return 0u; }
  let own_key = ordered_bits(logits[row + token]);
  if own_key > kept.above { return weight_of(logits[row + token], kept.largest, draw.temperature); }
  if own_key != key || kept.tie_weight == 0u { return 0u; }
  let first = token - token % kept.run;
  var ties_before = 0u;
  for (var i = first; i < token; i++) { ties_before += u32(ordered_bits(logits[row + i]) == key); }
  return select(0u, kept.tie_weight, ties_before < run_ties[token / kept.run]);
}

// The coin of a row, in units of a weight. Invocation 0 only.
fn toss(logit_row: u32, mass: vec2u, kept: Kept, draw: Draw) -> vec2u {
  let row = logit_row * params.stride;
  let number = philox(draw.seed, draw.position, COIN_STREAM);
  var share = vec2u(0u);
  for (var child = children[logit_row].first; child != NO_ROW; child = children[child].next) {
    let weight = kept_weight(row, draft_of(child), kept, draw);
    if draft_of(child) == drawn { return add64(share, scale64(vec2u(weight, 0u), number)); }
    share = add64(share, vec2u(weight, 0u));
  }
  return add64(share, scale64(sub64(mass, share), number));
}

// The accepted draft, or the token drawn. Invocation 0 only.
fn choose(logit_row: u32, mass: vec2u, kept: Kept, draw: Draw) -> u32 {
  if children[logit_row].first == NO_ROW || draw.temperature <= 0.0 { return drawn; }
  let row = logit_row * params.stride;
  var coin = toss(logit_row, mass, kept, draw);
  if params.acc < 1.0 { coin = scale64(coin, max(u32(params.acc * FRACTION_ONE), LEAST_ACC)); }
  var enough = mass;
  if params.single < 1.0 { enough = scale64(mass, u32(params.single * FRACTION_ONE)); }
  var share = vec2u(0u);
  for (var child = children[logit_row].first; child != NO_ROW; child = children[child].next) {
    let draft = draft_of(child);
    let weight = vec2u(kept_weight(row, draft, kept, draw), 0u);
    share = add64(share, weight);
    let is_hit = less64(coin, share) || !less64(weight, enough);
    if is_hit && may_come(row, draft) { return draft; }
  }
  return drawn;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let draw = draws[group.x];
  let best = best_of_row(invocation, group.x * params.stride);
  let largest = logits[group.x * params.stride + best.y];
  let kept = find_kept(invocation, group.x, largest, draw);
  var mass = vec2u(0u);
  if invocation == 0u {
    mass = settle_runs(kept, draw);
    choose_run(scale64(mass, philox(draw.seed, draw.position, TOKEN_STREAM)));
  }
  workgroupBarrier();

  if owner == NOBODY && invocation == 0u { drawn = best.y; }
  if invocation == owner { drawn = token_of_run(group.x, kept, draw); }
  workgroupBarrier();
  if invocation == 0u { ids[group.x] = choose(group.x, mass, kept, draw); }
}
