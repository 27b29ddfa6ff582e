// dot_rows.wgsl where BLOCK_SPLIT invocations share the groups of four weight rows, so that few rows
// keep many invocations busy: each computes the partial sums of its groups, and those with weight
// rows of their own fold them, in the order that one invocation alone has.
//
// Every invocation of the workgroup must call dot_rows(), in uniform control flow.

var<workgroup> group_partials: array<Sums, WORKGROUP_SIZE>;
var<workgroup> group_scales: array<vec4f, WORKGROUP_SIZE>;
// Sums that wait in the tree of dot_rows.wgsl. Few of the invocations hold sums, and all would keep
// registers for them: they wait in workgroup memory where there is room, as kernels have memory of their own.
const WAITING_BYTES = 16u * ROW_LANES * TOKENS * LEVELS;
const WAITS_TOGETHER =
  LEVELS > 1u && 16u * WORKGROUP_SIZE * (TOKENS + 1u) + WAITING_BYTES <= 12800u;
var<workgroup> waiting_sums: array<Waiting, select(1u, ROW_LANES, WAITS_TOGETHER)>;

// The parameters of dot_rows_alone.wgsl.
fn dot_rows(first_granule: vec4u, first_scale: vec4u, x_first: XRows, invocation: u32) -> Sums {
  let groups = group_count();
  let leaves = tree_leaves();
  var segment = Sums();
  var total = Sums();
  var waiting = Waiting();
  var leaf = 0u;
  var leaf_end = first_group(1u);
  for (var first = 0u; first < groups; first += BLOCK_SPLIT) {
    // Beyond the last group its sums are computed again, and not used.
    let mine = min(first + invocation / ROW_LANES, groups - 1u);
    let words = scale_words(mine, first_scale);
    group_partials[invocation] =
      group_sums(mine, first_granule, words, x_first, row_lane(invocation));
    group_scales[invocation] = scale_values(mine, words);
    workgroupBarrier();
    if holds_sums(invocation) {
      let end = min(first + BLOCK_SPLIT, groups);
      for (var group = first; group <= end; group++) {
        while group == leaf_end && leaf < leaves {
          if WAITS_TOGETHER { total = climb_together(invocation, leaf, segment); }
          else { total = climb(&waiting, leaf, segment); }
          segment = Sums();
          leaf++;
          leaf_end = first_group(leaf + 1u);
        }
        if group == end { break; }
        let part = invocation + (group - first) * ROW_LANES;
        for (var t = 0u; t < TOKENS; t++) {
          segment[t] = fma(group_scales[part], group_partials[part][t], segment[t]);
        }
      }
    }
    workgroupBarrier();
  }
  return total;
}

// As climb() of dot_rows.wgsl, but sums wait in workgroup memory.
fn climb_together(lane: u32, leaf: u32, segment: Sums) -> Sums {
  var total = segment;
  for (var level = 0u; level < LEVELS; level++) {
    let below = (1u << level) - 1u;
    if (leaf & below) != below { break; }
    for (var t = 0u; t < TOKENS; t++) {
      if (leaf & (1u << level)) == 0u {
        waiting_sums[lane][level][t] = total[t];
      } else {
        total[t] = waiting_sums[lane][level][t] + total[t];
      }
    }
    if (leaf & (1u << level)) == 0u { break; }
  }
  return total;
}
