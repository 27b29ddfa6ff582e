// How the invocations of attention_split.wgsl learn of each other's values, on any adapter: through
// workgroup memory.

const FOURS = KEY_TILE / 4u;

var<workgroup> of_lanes: array<f32, LANES * QUERIES>;
var<workgroup> shared_weights: array<vec4f, FOURS * QUERIES>;
var<workgroup> shared_entries: array<vec4u, FOURS>;
var<workgroup> shared_scales: array<vec4f, select(1u, FOURS * VALUE_RUNS, SCALED)>;

fn highest(tops: array<f32, QUERIES>, lane: u32) -> array<f32, QUERIES> {
  // Also: all invocations have read the tile before.
  workgroupBarrier();
  for (var i = 0u; i < QUERIES; i++) { of_lanes[lane * QUERIES + i] = tops[i]; }
  workgroupBarrier();
  for (var i = lane; i < QUERIES; i += LANES) {
    var top = of_lanes[i];
    for (var l = 1u; l < LANES; l++) { top = max(top, of_lanes[l * QUERIES + i]); }
    of_lanes[i] = top;
  }
  workgroupBarrier();
  var all = tops;
  for (var i = 0u; i < QUERIES; i++) { all[i] = of_lanes[i]; }
  return all;
}

fn added_up(sums: array<f32, QUERIES>, lane: u32) -> array<f32, QUERIES> {
  // All invocations have read what was the highest: nothing is published before.
  for (var i = 0u; i < QUERIES; i++) { of_lanes[lane * QUERIES + i] = sums[i]; }
  workgroupBarrier();
  for (var i = lane; i < QUERIES; i += LANES) {
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
      for (var l = 0u; l < half; l++) {
        of_lanes[l * QUERIES + i] += of_lanes[(l + half) * QUERIES + i];
      }
    }
  }
  workgroupBarrier();
  var all = sums;
  for (var i = 0u; i < QUERIES; i++) { all[i] = of_lanes[i]; }
  return all;
}

fn publish(rounds: u32, lane: u32) {
  for (var at = 0u; at < rounds; at++) {
    let r = min(at, ROUNDS - 1u);
    let four = r * LANES + lane;
    shared_entries[four] = entries[r];
    for (var i = 0u; i < QUERIES; i++) { shared_weights[four * QUERIES + i] = weights[r * QUERIES + i]; }
    for (var run = 0u; run < VALUE_RUNS; run++) {
      shared_scales[four * VALUE_RUNS + run] = scales[r * VALUE_RUNS + run];
    }
  }
  workgroupBarrier();
}

fn query_of(asked: Queries, query: u32, quad: u32, turned: bool, reader: u32, mine: vec4f) -> vec4f {
  return query_quad(asked, query, quad, turned);
}

fn weights_of(four: u32, query: u32, owner: u32, mine: vec4f) -> vec4f {
  return shared_weights[four * QUERIES + query];
}

fn entries_of(four: u32, owner: u32, mine: vec4u) -> vec4u {
  return shared_entries[four];
}

fn scales_of(four: u32, run: u32, owner: u32, mine: vec4f) -> vec4f {
  return shared_scales[four * VALUE_RUNS + run];
}
