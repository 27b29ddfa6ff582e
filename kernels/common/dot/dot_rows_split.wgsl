// dot_rows.wgsl where BLOCK_SPLIT invocations share the groups of four weight rows, so that few rows
// keep many invocations busy: each computes the partial sums of its groups, and folds those of its
// TREE_TOKENS of the activation rows, in the order that one invocation alone has.
//
// Every invocation of the workgroup must call dot_rows(), in uniform control flow.

var<workgroup> group_partials: array<Sums, WORKGROUP_SIZE>;
var<workgroup> group_scales: array<vec4f, WORKGROUP_SIZE>;
// Sums that wait in the tree of dot_rows.wgsl. Few of the invocations fold sums, and all would keep
// registers for them: they wait in workgroup memory where there is room, as kernels have memory of their own.
const FOLDERS = ROW_LANES * (TOKENS / TREE_TOKENS);
const WAITING_BYTES = 16u * ROW_LANES * TOKENS * LEVELS;
const WAITS_TOGETHER =
  LEVELS > 1u && 16u * WORKGROUP_SIZE * (TOKENS + 1u) + WAITING_BYTES <= 12800u;
var<workgroup> waiting_sums: array<Waiting, select(1u, FOLDERS, WAITS_TOGETHER)>;

// The parameters of dot_rows_alone.wgsl.
fn dot_rows(first_granule: vec4u, first_scale: vec4u, x_first: XRows, invocation: u32) -> Sums {
  let groups = group_count();
  let leaves = tree_leaves();
  let first_folded = invocation / ROW_LANES * TREE_TOKENS;
  let folds = first_folded < TOKENS;
  var segment = TreeSums();
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
    if folds {
      let end = min(first + BLOCK_SPLIT, groups);
      for (var group = first; group <= end; group++) {
        // The sums of the only segment wait for none.
        while LEVELS > 1u && group == leaf_end && leaf < leaves {
          // Level 0 has this sum already, or is free, as it waits for none now.
          if WAITS_TOGETHER {
            waiting_sums[invocation][0] = climb_together(invocation, leaf, segment);
          } else {
            waiting[0] = climb(&waiting, leaf, segment);
          }
          segment = TreeSums();
          leaf++;
          leaf_end = first_group(leaf + 1u);
        }
        if group == end { break; }
        let part = row_lane(invocation) + (group - first) * ROW_LANES;
        for (var t = 0u; t < TREE_TOKENS; t++) {
          segment[t] = fma(group_scales[part], group_partials[part][first_folded + t], segment[t]);
        }
      }
    }
    workgroupBarrier();
  }
  if LEVELS == 1u { waiting[0] = segment; }
  // Who has weight rows of its own gets the sums of all its activation rows.
  if folds {
    if WAITS_TOGETHER { waiting[0] = waiting_sums[invocation][0]; }
    for (var t = 0u; t < TREE_TOKENS; t++) {
      group_partials[row_lane(invocation)][first_folded + t] = waiting[0][t];
    }
  }
  workgroupBarrier();
  return group_partials[invocation];
}

// As climb() of dot_rows.wgsl, but sums wait in workgroup memory.
fn climb_together(folder: u32, leaf: u32, segment: TreeSums) -> TreeSums {
  var total = segment;
  for (var level = 0u; level < LEVELS; level++) {
    let below = (1u << level) - 1u;
    if (leaf & below) != below { break; }
    for (var t = 0u; t < TREE_TOKENS; t++) {
      if (leaf & (1u << level)) == 0u {
        waiting_sums[folder][level][t] = total[t];
      } else {
        total[t] = waiting_sums[folder][level][t] + total[t];
      }
    }
    if (leaf & (1u << level)) == 0u { break; }
  }
  return total;
}
