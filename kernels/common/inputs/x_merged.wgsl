// What a linear kernel multiplies: slices of rows whose splits attention left in `partials`, bit for
// bit as attention/merge_splits puts them together. Each workgroup merges what it multiplies, once,
// into its own memory, so that generated rows need no launch for that.
//
// Needs online_softmax.wgsl and merged_splits.wgsl, the bindings `partials` and `rows`,
// and of `params` rows, slices, columns (a multiple of 4), max_splits and split_length.

alias Elements = vec4f;
// Neighbouring slices of a workgroup, and vectors of each.
const SLICES = 1u;
const SLICE_VECTORS = 32u;
const ROW_VECTORS = SLICES * SLICE_VECTORS;

var<workgroup> merged_slices: array<vec4f, TOKENS * ROW_VECTORS>;

fn x_vector(index: u32) -> vec4f {
  return merged_slices[index];
}

fn record_word(at: u32) -> f32 {
  return partials[at];
}

fn record_elements(at: u32) -> vec4f {
  return vec4f(partials[at], partials[at + 1u], partials[at + 2u], partials[at + 3u]);
}

// Merges the workgroup's SLICES slices of its TOKENS rows, row by row: what x_vector() gives.
fn merge_slices(first_row: u32, first_slice: u32, invocation: u32) {
  let record_words = 2u + params.columns;
  let stride = params.slices * record_words;
  // The last workgroups may have fewer rows and slices.
  let row_count = min(TOKENS, params.rows - first_row);
  for (var v = invocation; v < row_count * ROW_VECTORS; v += WORKGROUP_SIZE) {
    let row = first_row + v / ROW_VECTORS;
    let slice = first_slice + v % ROW_VECTORS / SLICE_VECTORS;
    if slice < params.slices {
      let record = row * params.max_splits * stride + slice * record_words;
      let splits = rows[row].y / params.split_length + 1u;
      let whole = merged(record, stride, splits, 4u * (v % SLICE_VECTORS));
      merged_slices[v] = whole.acc / whole.l;
    }
  }
  workgroupBarrier();
}
