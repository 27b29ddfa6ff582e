// repack_weight: the words of a checkpoint's matrix, as a file has them, become interleaved granules
//
//   staging  [staged rows, row_words]  u32    read
//   words    interleaved granules      vec4u  write   `granules` of each row of `row_groups` groups
//
// PACKING says what a staged row is:
//   rows  an output; granule g of it is words 4 g to 4 g + 3, and zero past `row_words`
//   GPTQ  eight inputs, a word for each output: a granule is four words one below the other
//   AWQ   one input, a word for eight outputs: code i of word w is a nibble of staged row 8 w + i
//
// One invocation per granule; neighbouring ones take the rows of one interleaved group, so that
// granules are written side by side. Rows from `rows` on, up to a multiple of `lanes`, become zeros.

const PACKING = 0u;
const WORKGROUP_SIZE = 64u;

const PACKING_ROWS = 0u;
const PACKING_GPTQ = 1u;

struct Params {
  row_words: u32,
  rows: u32,
  row_groups: u32,
  lanes: u32,
  granules: u32,
  granules_per_row: u32,
  first_granule: u32,
  source_row: u32,
}

@group(0) @binding(0) var<storage, read> staging: array<u32>;
@group(0) @binding(1) var<storage, read_write> words: array<vec4u>;
@group(0) @binding(2) var<uniform> params: Params;

// Codes of eight inputs, from staged row `first` on, of the output that is `output` in the file.
fn awq_word(first: u32, output: u32) -> u32 {
  // Neighbouring outputs 0 to 7 are nibbles 0, 4, 1, 5, 2, 6, 3, 7 of their word.
  let shift = 4u * (output % 8u / 2u) + 16u * (output % 2u);
  var word = 0u;
  for (var i = 0u; i < 8u; i++) {
    let codes = staging[(first + i) * params.row_words + output / 8u];
    word |= ((codes >> shift) & 15u) << (4u * i);
  }
  return word;
}

fn granule_of(row: u32, granule: u32) -> vec4u {
  let at = 4u * granule;
  if PACKING == PACKING_ROWS {
    if at >= params.row_words { return vec4u(0u); }
    let start = row * params.row_words + at;
    return vec4u(staging[start], staging[start + 1u], staging[start + 2u], staging[start + 3u]);
  }
  let output = params.source_row + row;
  var codes = vec4u(0u);
  for (var w = 0u; w < 4u; w++) {
    if PACKING == PACKING_GPTQ { codes[w] = staging[(at + w) * params.row_words + output]; }
    else { codes[w] = awq_word(8u * (at + w), output); }
  }
  return codes;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(global_invocation_id) invocation: vec3u) {
  // Items, from the fastest: lane, granule, group of rows.
  let item = invocation.x;
  let lane = item % params.lanes;
  let granule = item / params.lanes % params.granules;
  let row_group = item / params.lanes / params.granules;
  if row_group >= params.row_groups { return; }
  let row = row_group * params.lanes + lane;
  let number = (row_group * params.granules_per_row + granule) * params.lanes + lane;
  var codes = vec4u(0u);
  if row < params.rows { codes = granule_of(row, granule); }
  words[params.first_granule + number] = codes;
}
