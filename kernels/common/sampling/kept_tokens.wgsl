// The tokens of a row that top_k, top_p and min_p keep, and the draw of one of them. Needs
// ordered_bits.wgsl, softmax_weight.wgsl, u64.wgsl, WORKGROUP_SIZE, the binding
// `logits: array<f32>`, and `params` with `vocabulary` and `stride`.
//
// In descending order, ties to the lowest index, a token is kept when its rank is below top_k, the
// probability before it is at most top_p and its own is at least min_p times the best token's: all
// three of the uncut distribution. NaN and -inf have no probability.
//
// Weights are whole numbers: no order of adding and no neighbour can change a draw. The last logit
// that top_k and top_p keep is found by a radix select over its bits, most significant digit first,
// with counts and masses of each digit from atomics. Ties with it are kept from the lowest index on.
// min_p is a bound on the logit itself.

const DIGIT_BITS = 8u;
const DIGITS = 256u;
const PASSES = 32u / DIGIT_BITS;
const FRACTION_ONE = 4294967296.0;
const NOBODY = 0xffffffffu;
const NO_MIN_P = -1e30;

struct Draw {
  temperature: f32,
  top_p: f32,
  top_k: u32,
  // The logarithm of min_p, or less than any logit can be.
  log_min_p: f32,
  seed: u32,
  position: u32,
}

// Kept are tokens whose key is above `above`, and the first ones of those that have the key `key`.
// `largest` is the row's, `run` the tokens that an invocation looks at; `tie_weight` is a tie's, 0
// where none is kept.
struct Kept {
  above: u32,
  largest: f32,
  run: u32,
  tie_weight: u32,
}

var<workgroup> digit_counts: array<atomic<u32>, DIGITS>;
var<workgroup> digit_low: array<atomic<u32>, DIGITS>;
var<workgroup> digit_high: array<atomic<u32>, DIGITS>;
// What invocation 0 decides for all of them: of the last kept token, its key (the digits found so
// far) and the number and mass of the tokens before it; `limit` is the mass that top_p allows.
var<workgroup> key: u32;
var<workgroup> count_before: u32;
var<workgroup> mass_before: vec2u;
var<workgroup> limit: vec2u;
// Each invocation's run of the row: mass above the key, tokens with the key; once settled, the mass
// that it keeps and its ties among it.
var<workgroup> run_mass: array<vec2u, WORKGROUP_SIZE>;
var<workgroup> run_ties: array<u32, WORKGROUP_SIZE>;
// The run that a draw falls into, and how far.
var<workgroup> owner: u32;
var<workgroup> owner_target: vec2u;

// The digit in which the last kept token lies, and what lies before it. Invocation 0 only.
fn choose_digit(pass_index: u32, draw: Draw) {
  if pass_index == 0u {
    var total = vec2u(0u);
    for (var d = 0u; d < DIGITS; d++) {
      total = add64(total, vec2u(atomicLoad(&digit_low[d]), atomicLoad(&digit_high[d])));
    }
    limit = total;
    if draw.top_p < 1.0 { limit = scale64(total, u32(draw.top_p * FRACTION_ONE)); }
  }
  var found = 0u;
  var count = count_before;
  var mass = mass_before;
  for (var i = 0u; i < DIGITS; i++) {
    let d = DIGITS - 1u - i;
    let members = atomicLoad(&digit_counts[d]);
    if members == 0u { continue; }
    if count >= draw.top_k || less64(limit, mass) { break; }
    found = d;
    count_before = count;
    mass_before = mass;
    count += members;
    mass = add64(mass, vec2u(atomicLoad(&digit_low[d]), atomicLoad(&digit_high[d])));
  }
  key = (key << DIGIT_BITS) | found;
}

// How many of `ties` tokens of weight `weight` are kept: the last one's mass before is allowed.
fn kept_ties(ties: u32, weight: u32, draw: Draw) -> u32 {
  var kept = min(ties, draw.top_k - count_before);
  let room = sub64(limit, mass_before);
  var low = 1u;
  // Largest count in [1, kept] with (count - 1) * weight <= room.
  while low < kept {
    let middle = low + (kept - low + 1u) / 2u;
    if less64(room, mul_wide(middle - 1u, weight)) { kept = middle - 1u; } else { low = middle; }
  }
  return kept;
}

// Finds what is kept, and each run's mass and ties. Uniform control flow, ends with a barrier.
fn find_kept(invocation: u32, logit_row: u32, largest: f32, draw: Draw) -> Kept {
  let row = logit_row * params.stride;
  let random = draw.temperature > 0.0;
  let cut = random && (draw.top_k < params.vocabulary || draw.top_p < 1.0);

  let scanned = select(0u, params.vocabulary, cut);
  for (var pass_index = 0u; pass_index < PASSES; pass_index++) {
    for (var d = invocation; d < DIGITS; d += WORKGROUP_SIZE) {
      atomicStore(&digit_counts[d], 0u);
      atomicStore(&digit_low[d], 0u);
      atomicStore(&digit_high[d], 0u);
    }
    workgroupBarrier();
    let shift = 32u - DIGIT_BITS * (pass_index + 1u);
    for (var i = invocation; i < scanned; i += WORKGROUP_SIZE) {
      let logit = logits[row + i];
      let digits = ordered_bits(logit) >> shift;
      if pass_index > 0u && (digits >> DIGIT_BITS) != key { continue; }
      let d = digits % DIGITS;
      let weight = weight_of(logit, largest, draw.temperature);
      atomicAdd(&digit_counts[d], 1u);
      let low = atomicAdd(&digit_low[d], weight);
      if low + weight < low { atomicAdd(&digit_high[d], 1u); }
    }
    workgroupBarrier();
    if invocation == 0u { choose_digit(pass_index, draw); }
    workgroupBarrier();
  }

  // Kept are tokens above `above`, and ties with the key. Without a cut the key is 0, which only NaN
  // has. Where min_p cuts deeper than the key, it leaves no ties with it.
  let floor_key = ordered_bits(fma(draw.temperature, draw.log_min_p, largest));
  let min_p_cuts = draw.log_min_p > NO_MIN_P && floor_key > key;
  let above = select(key, floor_key - 1u, min_p_cuts);
  let run = (select(0u, params.vocabulary, random) + WORKGROUP_SIZE - 1u) / WORKGROUP_SIZE;
  let first = min(invocation * run, params.vocabulary);
  let end = min(first + run, params.vocabulary);
  var mass = vec2u(0u);
  var ties = 0u;
  for (var i = first; i < end; i++) {
    let logit = logits[row + i];
    let own_key = ordered_bits(logit);
    if own_key > above { mass = add64(mass, vec2u(weight_of(logit, largest, draw.temperature), 0u)); }
    ties += u32(own_key == key && !min_p_cuts);
  }
  run_mass[invocation] = mass;
  run_ties[invocation] = ties;
  workgroupBarrier();
  let last_weight = weight_of(ordered_value(key), largest, draw.temperature);
  return Kept(above, largest, run, select(last_weight, 0u, key == 0u || min_p_cuts));
}

// Gives each run the ties that it keeps; returns the mass of all runs. Invocation 0 only.
fn settle_runs(kept: Kept, draw: Draw) -> vec2u {
  var ties = 0u;
  for (var i = 0u; i < WORKGROUP_SIZE; i++) { ties += run_ties[i]; }
  var ties_left = kept_ties(ties, kept.tie_weight, draw);
  var total = vec2u(0u);
  for (var i = 0u; i < WORKGROUP_SIZE; i++) {
    let own_ties = min(run_ties[i], ties_left);
    run_ties[i] = own_ties;
    run_mass[i] = add64(run_mass[i], mul_wide(own_ties, kept.tie_weight));
    total = add64(total, run_mass[i]);
    ties_left -= own_ties;
  }
  return total;
}

// Finds the run into which `mass_target` of the mass of all runs falls. Invocation 0 only.
fn choose_run(mass_target: vec2u) {
  var to_go = mass_target;
  for (var i = 0u; i < WORKGROUP_SIZE; i++) {
    owner = i;
    owner_target = to_go;
    if less64(to_go, run_mass[i]) { return; }
    to_go = sub64(to_go, run_mass[i]);
  }
  owner = NOBODY;
}

// The token of its own run that the draw falls on. The owner only.
fn token_of_run(logit_row: u32, kept: Kept, draw: Draw) -> u32 {
  let row = logit_row * params.stride;
  let end = min((owner + 1u) * kept.run, params.vocabulary);
  var to_go = owner_target;
  var ties_left = run_ties[owner];
  for (var i = owner * kept.run; i < end; i++) {
    let logit = logits[row + i];
    let own_key = ordered_bits(logit);
    if own_key <= kept.above && (own_key != key || ties_left == 0u) { continue; }
    ties_left -= u32(own_key == key);
    let weight = vec2u(weight_of(logit, kept.largest, draw.temperature), 0u);
    if less64(to_go, weight) { return i; }
    to_go = sub64(to_go, weight);
  }
  return NOBODY;
}
