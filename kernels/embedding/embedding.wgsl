// embedding: out[r, :] = the table row of the token that row r starts from
//
//   rows      [rows, ROW_WORDS] u32    read   the first is the source:
//                                        token id                    table row
//                                        FROM_SAMPLED | i            table row of sampled[i]
//                                        FROM_EXTERNAL | i           embeddings[i, :]
//   sampled   [..]              u32    read   ids that the previous step drew
//   embeddings  [.., stride]    f32    read   embeddings made elsewhere
//   table     [row_count, cols] DTYPE  read   table rows first_row, first_row + 1, ...
//   out       [rows, stride]    f32    write
//
// One workgroup per row. A table over the binding limit is cut in slabs, one launch each: a
// launch writes only the rows whose token lies in its slab. The first slab's writes the external
// rows too. 16-bit tables hold two columns a word, the even one in the low half.

const WORKGROUP_SIZE = 64u;
const BF16 = 0u;
const F16 = 1u;
const F32 = 2u;
const DTYPE = 0u;
// From one row's source to the next.
const ROW_WORDS = 4u;
const FROM_EXTERNAL = 0x80000000u;
const FROM_SAMPLED = 0x40000000u;

struct Params {
  cols: u32,
  stride: u32,
  first_row: u32,
  row_count: u32,
}

@group(0) @binding(0) var<storage, read> rows: array<u32>;
@group(0) @binding(1) var<storage, read> sampled: array<u32>;
@group(0) @binding(2) var<storage, read> embeddings: array<f32>;
@group(0) @binding(3) var<storage, read> table: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

fn pair_of(word: u32) -> vec2f {
  if DTYPE == F16 { return unpack2x16float(word); }
  return vec2f(bitcast<f32>(word << 16u), bitcast<f32>(word & 0xffff0000u));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let start = group.x * params.stride;
  let source = rows[group.x * ROW_WORDS];
  if (source & FROM_EXTERNAL) != 0u {
    let first = (source & ~FROM_EXTERNAL) * params.stride;
    if params.first_row == 0u {
      for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
        out[start + c] = embeddings[first + c];
      }
    }
    return;
  }
  var token = source;
  if (source & FROM_SAMPLED) != 0u { token = sampled[source & ~FROM_SAMPLED]; }
  // Tokens before the slab wrap around to large numbers.
  let row = token - params.first_row;
  if row >= params.row_count { return; }

  if DTYPE == F32 {
    for (var c = invocation; c < params.cols; c += WORKGROUP_SIZE) {
      out[start + c] = bitcast<f32>(table[row * params.cols + c]);
    }
  } else {
    let words = params.cols / 2u;
    for (var word = invocation; word < words; word += WORKGROUP_SIZE) {
      let pair = pair_of(table[row * words + word]);
      out[start + 2u * word] = pair.x;
      out[start + 2u * word + 1u] = pair.y;
    }
  }
}
