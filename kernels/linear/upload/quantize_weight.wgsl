// quantize_weight: whole rows of plain numbers become codes and scales of a quantized weight
//
//   staging   [rows, row_words]          u32    read        F32, or two 16-bit numbers to a word
//   words     interleaved granules       vec4u  write       of `row_groups * lanes` rows
//   scales    [rows_padded, groups]      u32    write       of the same rows
//   partials  [workgroups]               vec2f  write       sums of squared errors, of squares
//
// One invocation per row and group of columns that share a scale; neighbouring ones take `lanes`
// rows of one run (linear/weight_order.ts). The first becomes row `first_row` of the weight. Rows from
// `rows` on become zeros; columns from `columns` on act as zeros.
//
// A number's code is the one nearest to number * (1 / scale), where `scale` is already rounded as it
// is stored. Decisions rest on single rounded operations, so that the reference can repeat them.
// The codes of int4 span [least, most] of the group, which always includes 0, shrunk by the factor
// of SHRINK that gives the least squared error: a few clipped numbers for finer steps.

const SOURCE = 0u;
const TARGET = 0u;
const WORKGROUP_SIZE = 64u;

const SOURCE_F32 = 0u;
const SOURCE_BF16 = 1u;
const TARGET_INT4 = 0u;
const TARGET_INT8 = 1u;

const INT4_LARGEST = 15.0;
const INT8_LARGEST = 127.0;
const SHRINK = vec4f(1.0, 0.95, 0.9, 0.8);
// Groups without a larger magnitude than this (2^-100) become zeros: 1 / scale stays finite.
const SMALLEST_SPAN = 7.888609052210118e-31;

struct Params {
  row_words: u32,
  columns: u32,
  group_columns: u32,
  groups: u32,
  lanes: u32,
  run_rows: u32,
  rows: u32,
  row_groups: u32,
  first_row: u32,
  scales_of_run: u32,
  scales_of_group: u32,
  first_granule: u32,
  first_scale: u32,
}

@group(0) @binding(0) var<storage, read> staging: array<u32>;
@group(0) @binding(1) var<storage, read_write> words: array<vec4u>;
@group(0) @binding(2) var<storage, read_write> scales: array<u32>;
@group(0) @binding(3) var<storage, read_write> partials: array<vec2f>;
@group(0) @binding(4) var<uniform> params: Params;

const CODES_OF_GRANULE = select(16u, 32u, TARGET == TARGET_INT4);

// A number is about `nearest(number) * scale`; `zero` is the code of 0.
struct Coder { scale: f32, inverse: f32, zero: f32, }
var<workgroup> sums: array<vec2f, WORKGROUP_SIZE>;

// Columns `column` to `column + 3` of the row that starts at word `row`.
fn quad(row: u32, column: u32) -> vec4f {
  if column >= params.columns { return vec4f(0.0); }
  var value = vec4f(0.0);
  if SOURCE == SOURCE_F32 {
    let at = row + column;
    value = bitcast<vec4f>(vec4u(staging[at], staging[at + 1u], staging[at + 2u], staging[at + 3u]));
  } else {
    let pairs = vec2u(staging[row + column / 2u], staging[row + column / 2u + 1u]);
    let bits = vec4u(pairs.x << 16u, pairs.x & 0xffff0000u, pairs.y << 16u, pairs.y & 0xffff0000u);
    let halves = vec4f(unpack2x16float(pairs.x), unpack2x16float(pairs.y));
    value = select(halves, bitcast<vec4f>(bits), SOURCE == SOURCE_BF16);
  }
  return select(vec4f(0.0), value, vec4u(column) + vec4u(0u, 1u, 2u, 3u) < vec4u(params.columns));
}

// The code's number in steps of the scale.
fn nearest(value: vec4f, inverse: vec4f, zero: vec4f) -> vec4f {
  let steps = value * inverse;
  if TARGET == TARGET_INT4 { return clamp(round(steps), -zero, INT4_LARGEST - zero); }
  if TARGET == TARGET_INT8 { return clamp(round(steps), vec4f(-INT8_LARGEST), vec4f(INT8_LARGEST)); }
  return vec4f(
    round_e4m3(steps.x), round_e4m3(steps.y), round_e4m3(steps.z), round_e4m3(steps.w),
  );
}

// Nearest with the low five bits zero, ties to even: they are the zero point's place.
fn round_scale(scale: vec4f) -> vec4f {
  let bits = bitcast<vec4u>(scale);
  let tie = (bits >> vec4u(5u)) & vec4u(1u);
  return bitcast<vec4f>((bits + vec4u(15u) + tie) & vec4u(0xffffffe0u));
}

fn inverse_of(scale: vec4f) -> vec4f {
  return select(vec4f(0.0), vec4f(1.0) / scale, scale > vec4f(0.0));
}

fn int4_coder(row: u32, first: u32, least: f32, most: f32) -> Coder {
  let span = most - least;
  let shrunk = select(vec4f(0.0), span * (SHRINK / INT4_LARGEST), span > SMALLEST_SPAN);
  let scale = round_scale(shrunk);
  let inverse = inverse_of(scale);
  let zero = clamp(round(-least * SHRINK * inverse), vec4f(0.0), vec4f(INT4_LARGEST));
  var errors = vec4f(0.0);
  for (var c = first; c < first + params.group_columns; c += 4u) {
    let values = quad(row, c);
    for (var i = 0u; i < 4u; i++) {
      let value = vec4f(values[i]);
      let error = fma(nearest(value, inverse, zero), scale, -value);
      errors = fma(error, error, errors);
    }
  }
  var best = 0u;
  for (var i = 1u; i < 4u; i++) { best = select(best, i, errors[i] < errors[best]); }
  return Coder(scale[best], inverse[best], zero[best]);
}

fn symmetric_coder(largest: f32) -> Coder {
  let steps = select(E4M3_MAX, INT8_LARGEST, TARGET == TARGET_INT8);
  let scale = select(0.0, largest * (1.0 / steps), largest > SMALLEST_SPAN);
  return Coder(scale, inverse_of(vec4f(scale)).x, 0.0);
}

fn code_of(steps: f32, zero: f32) -> u32 {
  if TARGET == TARGET_INT4 { return u32(steps + zero); }
  if TARGET == TARGET_INT8 { return bitcast<u32>(i32(steps)) & 0xffu; }
  let bits = bitcast<u32>(abs(steps));
  // The exponent's bias is smaller by 120; subnormal codes count steps of 2^-9.
  let code = select((bits >> 20u) - (120u << 3u), u32(abs(steps) * 512.0), bits < 0x3c800000u);
  return code | ((bitcast<u32>(steps) >> 24u) & 0x80u);
}

// One row's codes and scale for one group; returns its sums of squared errors and of squares.
fn quantize_group(row: u32, group: u32, granule: u32, scale: u32) -> vec2f {
  let first = group * params.group_columns;
  let start = row * params.row_words;
  var low = vec4f(0.0);
  var high = vec4f(0.0);
  for (var c = first; c < first + params.group_columns; c += 4u) {
    low = min(low, quad(start, c));
    high = max(high, quad(start, c));
  }
  let least = min(min(low.x, low.y), min(low.z, low.w));
  let most = max(max(high.x, high.y), max(high.z, high.w));
  var coder = Coder();
  if TARGET == TARGET_INT4 { coder = int4_coder(start, first, least, most); }
  else { coder = symmetric_coder(max(most, -least)); }
  scales[scale] = bitcast<u32>(coder.scale) | u32(coder.zero);

  const CODE_BITS = 128u / CODES_OF_GRANULE;
  const CODES_OF_WORD = CODES_OF_GRANULE / 4u;
  var squares = vec4f(0.0);
  var errors = vec4f(0.0);
  for (var g = 0u; g < params.group_columns / CODES_OF_GRANULE; g++) {
    var codes = vec4u(0u);
    for (var q = 0u; q < CODES_OF_GRANULE / 4u; q++) {
      let values = quad(start, first + g * CODES_OF_GRANULE + 4u * q);
      let steps = nearest(values, vec4f(coder.inverse), vec4f(coder.zero));
      let error = fma(steps, vec4f(coder.scale), -values);
      errors = fma(error, error, errors);
      squares = fma(values, values, squares);
      for (var i = 0u; i < 4u; i++) {
        let shift = ((4u * q) % CODES_OF_WORD + i) * CODE_BITS;
        codes[4u * q / CODES_OF_WORD] |= code_of(steps[i], coder.zero) << shift;
      }
    }
    words[granule + g * params.run_rows] = codes;
  }
  return vec2f(dot(errors, vec4f(1.0)), dot(squares, vec4f(1.0)));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) workgroup: vec3u, @builtin(local_invocation_index) invocation: u32) {
  // Items, from the fastest: lane, group of columns, group of rows.
  let item = workgroup.x * WORKGROUP_SIZE + invocation;
  let group = item / params.lanes % params.groups;
  let row_group = item / params.lanes / params.groups;
  let row = row_group * params.lanes + item % params.lanes;
  var sum = vec2f(0.0);
  if row_group < params.row_groups {
    let run = (params.first_row + row) / params.run_rows;
    let lane = (params.first_row + row) % params.run_rows;
    let granules = params.group_columns / CODES_OF_GRANULE;
    let number = (run * params.groups + group) * granules * params.run_rows + lane;
    let granule = params.first_granule + number;
    let scale =
      params.first_scale + run * params.scales_of_run + group * params.scales_of_group + lane;
    if row < params.rows {
      sum = quantize_group(row, group, granule, scale);
    } else {
      scales[scale] = 0u;
      for (var g = 0u; g < granules; g++) { words[granule + g * params.run_rows] = vec4u(0u); }
    }
  }
  sums[invocation] = sum;
  workgroupBarrier();
  if invocation == 0u {
    for (var i = 1u; i < WORKGROUP_SIZE; i++) { sum += sums[i]; }
    partials[workgroup.x] = sum;
  }
}
