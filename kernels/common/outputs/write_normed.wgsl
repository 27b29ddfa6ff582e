// Where the sums of a linear kernel go: onto the rows of the residual stream or in their place, and beside that what
// the next norm makes of those, but for its scale, which needs the whole row: `value * norm_weight`,
// the same rounded to E4M3 with ROUNDED, and the sum of the squares of each SQUARES_COLUMNS values.
// norm/add_norm writes the same bits. row_scale.wgsl takes it from there.
//
// Needs quantize_e4m3.wgsl, the bindings of linear/residual_linear.wgsl, and of `params` beside
// what write_sums.wgsl has `normed_stride`, `normed_rounded` and `normed_squares`: the columns of a row
// of `normed` where those start. With ROUNDED the outputs of a workgroup are one group of the rounding.
//
// Every invocation of the workgroup must call write_outputs(), or write_added() behind its calls of
// add_row(), in uniform control flow.

const ROUNDED = false;
// Whether sums are added to the rows; else they take their place.
const ADDS = true;
const WORKGROUP_ROWS = TOKENS * TOKEN_LANES;
const WORKGROUP_TILES = WORKGROUP_OUTPUTS / SQUARES_COLUMNS;

const_assert WORKGROUP_OUTPUTS % SQUARES_COLUMNS == 0u;
const_assert !ROUNDED || WORKGROUP_OUTPUTS == GROUP_COLUMNS;

// By row and output; zeros beyond the last output.
var<workgroup> stream_values: array<f32, WORKGROUP_ROWS * WORKGROUP_OUTPUTS>;
// Bits of the largest magnitude of each row's outputs, ordered as the numbers are.
var<workgroup> largest: array<atomic<u32>, WORKGROUP_ROWS>;

// Adds `sum` to outputs of row `t` among those of the workgroup, which has the rows from `tile_row` on.
fn add_row(sum: vec4f, tile_row: u32, t: u32, output: vec4u, end: u32, first: u32) {
  let at = (tile_row + t) * params.out_stride;
  var most = 0.0;
  for (var i = 0u; i < 4u; i++) {
    var value = 0.0;
    if output[i] < end {
      value = sum[i];
      if ADDS { value = out[at + output[i]] + sum[i]; }
      out[at + output[i]] = value;
      if ROUNDED { most = max(most, abs(value * norm_weight[output[i]])); }
    }
    stream_values[t * WORKGROUP_OUTPUTS + output[i] - first] = value;
  }
  if ROUNDED { atomicMax(&largest[t], bitcast<u32>(most)); }
}

// The parameters of write_sums.wgsl.
fn write_outputs(
  sums: Sums, first_row: u32, output: vec4u, end: u32, invocation: u32, tile: u32,
) {
  let first = tile * WORKGROUP_OUTPUTS;
  let tile_row = first_row - first_token(0u, invocation);
  let rows = min(WORKGROUP_ROWS, params.rows - tile_row);
  if holds_sums(invocation) {
    // The same as first_token(), but no compiler sees where it is always 0, and unrolls the loop of
    // rows: that would take drivers for the CPU twice as long.
    let own = invocation / ROW_LANES * TOKENS;
    for (var t = 0u; t < TOKENS; t++) {
      for (var i = 0u; i < 4u; i++) {
        stream_values[(own + t) * WORKGROUP_OUTPUTS + output[i] - first] = sums[t][i];
      }
    }
    for (var t = own; t < min(own + TOKENS, rows); t++) {
      let at = vec4u(t * WORKGROUP_OUTPUTS - first) + output;
      let sum = vec4f(
        stream_values[at.x], stream_values[at.y], stream_values[at.z], stream_values[at.w],
      );
      add_row(sum, tile_row, t, output, end, first);
    }
  }
  write_added(tile_row, rows, end, invocation, first);
}

// What the norm makes of rows of the workgroup, once add_row() has had them all.
fn write_added(tile_row: u32, rows: u32, end: u32, invocation: u32, first: u32) {
  workgroupBarrier();
  // One value at a time: drivers for the CPU compile that much sooner than rows of a lane.
  for (var n = invocation; n < rows * WORKGROUP_OUTPUTS; n += WORKGROUP_SIZE) {
    let column = first + n % WORKGROUP_OUTPUTS;
    if column < end {
      let t = n / WORKGROUP_OUTPUTS;
      let beside = (tile_row + t) * params.normed_stride + column;
      let value = stream_values[n] * norm_weight[column];
      normed[beside] = value;
      if ROUNDED {
        let scale = unscaled_group_scale(bitcast<f32>(atomicLoad(&largest[t])));
        normed[beside + params.normed_rounded] = round_e4m3(value / scale) * scale;
      }
    }
  }
  for (var n = invocation; n < rows * WORKGROUP_TILES; n += WORKGROUP_SIZE) {
    let column = first + n % WORKGROUP_TILES * SQUARES_COLUMNS;
    if column < end {
      var squares = vec4f();
      for (var i = n * SQUARES_COLUMNS; i < (n + 1u) * SQUARES_COLUMNS; i += 4u) {
        let values = vec4f(
          stream_values[i], stream_values[i + 1u], stream_values[i + 2u], stream_values[i + 3u],
        );
        squares = fma(values, values, squares);
      }
      let beside = (tile_row + n / WORKGROUP_TILES) * params.normed_stride;
      normed[beside + params.normed_squares + column / SQUARES_COLUMNS] = join(squares);
    }
  }
}

// Between two calls of write_added(), as that.
fn forget_added(invocation: u32) {
  workgroupBarrier();
  if ROUNDED && invocation < WORKGROUP_ROWS { atomicStore(&largest[invocation], 0u); }
  workgroupBarrier();
}
