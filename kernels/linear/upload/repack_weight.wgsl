// repack_weight: the words of a checkpoint's matrix, as a file has them, become interleaved granules
//
//   staging  [staged rows, row_words]  u32    read
//   words    interleaved granules      vec4u  write   `granules` of each row of `runs` runs
//
// PACKING says what a staged row is:
//   rows  an output; granule g of it is words 4 g to 4 g + 3, and zero past `row_words`
//   GPTQ  eight inputs, a word for each output: a granule is four words one below the other
//   AWQ   one input, a word for eight outputs: nibble n of it is output 0, 2, 4, 6, 1, 3, 5 or 7
//
// One invocation per granule, of AWQ for granules of eight outputs; neighbouring ones take the rows
// of one run, whose granules lie side by side, of AWQ neighbouring words. Rows from `rows` on, up to a multiple of
// `run_rows`, become zeros, but not of AWQ past the last word with one that is meant.

const PACKING = 0u;
const WORKGROUP_SIZE = 64u;

const PACKING_ROWS = 0u;
const PACKING_AWQ = 2u;

struct Params {
  row_words: u32,
  rows: u32,
  runs: u32,
  run_rows: u32,
  granules: u32,
  granules_per_row: u32,
  first_granule: u32,
  source_row: u32,
}

@group(0) @binding(0) var<storage, read> staging: array<u32>;
@group(0) @binding(1) var<storage, read_write> words: array<vec4u>;
@group(0) @binding(2) var<uniform> params: Params;

fn put(run: u32, granule: u32, lane: u32, codes: vec4u) {
  let number = (run * params.granules_per_row + granule) * params.run_rows + lane;
  words[params.first_granule + number] = codes;
}

// Codes of an output or, where there is none, zeros.
fn put_output(output: u32, granule: u32, codes: vec4u) {
  // In front of the first output it wraps around, past every run.
  let row = output - params.source_row;
  let run = row / params.run_rows;
  if run >= params.runs { return; }
  put(run, granule, row % params.run_rows, select(vec4u(0u), codes, row < params.rows));
}

// Word `column` of 32 staged rows becomes a granule of each of eight outputs: of every eight words,
// nibble i of word j becomes nibble j of word i, halves first, then bytes, then nibbles.
fn repack_awq(column: u32, granule: u32) {
  var even = array<vec4u, 4>();
  var odd = array<vec4u, 4>();
  for (var w = 0u; w < 4u; w++) {
    var at = (32u * granule + 8u * w) * params.row_words + column;
    var inputs = array<u32, 8>();
    for (var i = 0u; i < 8u; i++) {
      inputs[i] = staging[at];
      at += params.row_words;
    }
    var low = vec4u(inputs[0], inputs[1], inputs[2], inputs[3]);
    var high = vec4u(inputs[4], inputs[5], inputs[6], inputs[7]);
    var swapped = ((low >> vec4u(16u)) ^ high) & vec4u(0xffffu);
    high ^= swapped;
    low ^= swapped << vec4u(16u);
    var first = vec4u(low.xy, high.xy);
    var second = vec4u(low.zw, high.zw);
    swapped = ((first >> vec4u(8u)) ^ second) & vec4u(0xff00ffu);
    second ^= swapped;
    first ^= swapped << vec4u(8u);
    low = vec4u(first.x, second.x, first.z, second.z);
    high = vec4u(first.y, second.y, first.w, second.w);
    swapped = ((low >> vec4u(4u)) ^ high) & vec4u(0xf0f0f0fu);
    odd[w] = high ^ swapped;
    even[w] = low ^ (swapped << vec4u(4u));
  }
  for (var i = 0u; i < 4u; i++) {
    // Nibbles 0, 2, 4, 6 are outputs 0, 4, 1, 5; nibbles 1, 3, 5, 7 are two further.
    let output = 8u * column + 4u * (i % 2u) + i / 2u;
    put_output(output, granule, vec4u(even[0][i], even[1][i], even[2][i], even[3][i]));
    put_output(output + 2u, granule, vec4u(odd[0][i], odd[1][i], odd[2][i], odd[3][i]));
  }
}

fn granule_of(row: u32, granule: u32) -> vec4u {
  let word = 4u * granule;
  if PACKING == PACKING_ROWS {
    if word >= params.row_words { return vec4u(0u); }
    let at = row * params.row_words + word;
    return vec4u(staging[at], staging[at + 1u], staging[at + 2u], staging[at + 3u]);
  }
  var at = word * params.row_words + params.source_row + row;
  var codes = vec4u(0u);
  for (var w = 0u; w < 4u; w++) {
    codes[w] = staging[at];
    at += params.row_words;
  }
  return codes;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3u) {
  let item = invocation.x;
  if PACKING == PACKING_AWQ {
    // From the fastest: word, granule.
    if item / params.row_words >= params.granules { return; }
    repack_awq(item % params.row_words, item / params.row_words);
    return;
  }
  // From the fastest: row of the run, granule, run.
  let lane = item % params.run_rows;
  let granule = item / params.run_rows % params.granules;
  let run = item / params.run_rows / params.granules;
  if run >= params.runs { return; }
  let row = run * params.run_rows + lane;
  var codes = vec4u(0u);
  if row < params.rows { codes = granule_of(row, granule); }
  put(run, granule, lane, codes);
}
