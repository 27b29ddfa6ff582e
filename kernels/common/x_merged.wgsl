// What a linear kernel multiplies: the one row whose splits its binding `x` has, bit for bit as
// attention/merge_splits puts them together. Each workgroup merges the slices it multiplies, once,
// into its own memory, so that a row alone needs no launch for that.
//
// Needs common/online_softmax.wgsl and common/merged_splits.wgsl. Of `x` `params.rows` are splits, each
// a record for every slice: two words and the slice's `params.columns`, a multiple of 4.

alias XVector = f32;
alias Elements = vec4f;
// Neighbouring slices of a workgroup, and vectors of each.
const SLICES = 1u;
const SLICE_VECTORS = 32u;
const MERGED_VECTORS = SLICES * SLICE_VECTORS;

var<workgroup> merged_slices: array<vec4f, MERGED_VECTORS>;

fn x_vector(index: u32) -> vec4f {
  return merged_slices[index];
}

fn record_word(at: u32) -> f32 {
  return x[at];
}

fn record_elements(at: u32) -> vec4f {
  return vec4f(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
}

/// What the sums of a row are multiplied with in the end.
fn row_scale(first: u32) -> f32 {
  return 1.0;
}

/// Merges the workgroup's slices, of which an invocation's starts at a vector of the merged row.
fn begin_rows(first: XRows, invocation: u32) -> XRows {
  let start = first[0] / MERGED_VECTORS * MERGED_VECTORS;
  for (var v = invocation; v < MERGED_VECTORS; v += WORKGROUP_SIZE) {
    let record = (start + v) / SLICE_VECTORS * (2u + params.columns);
    // The last workgroup may have fewer slices.
    if record < params.x_stride {
      let row = merged(record, params.x_stride, params.rows, 4u * (v % SLICE_VECTORS));
      merged_slices[v] = row.acc / row.l;
    }
  }
  workgroupBarrier();
  return XRows(first[0] - start);
}
