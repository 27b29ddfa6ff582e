// The functions of matrix_tiles.wgsl in plain WGSL, so that kernels written against them run
// where no adapter has subgroup matrices. For checks alone: nothing else may use it, as it is slow.
//
// The workgroup is cut in SUBGROUPS runs of invocations, of which each has some elements of a product.
// Columns are added one after another by fma.

// Operands are rounded to f16 and two of them are kept in a word; else one.
const HALF_OPERANDS = false;
const SUBGROUPS = 4u;
const SUBGROUP_LANES = WORKGROUP_SIZE / SUBGROUPS;
const MATRIX_M = 8u;
const MATRIX_N = 8u;
const MATRIX_K = 8u;
const LARGEST_HALF = 65504.0;
const WORD_OPERANDS = select(1u, 2u, HALF_OPERANDS);
const PRODUCT_ELEMENTS = MATRIX_M * MATRIX_N;
const OWN_ELEMENTS = (PRODUCT_ELEMENTS + SUBGROUP_LANES - 1u) / SUBGROUP_LANES;

// Where a matrix begins in its tile.
alias Left = u32;
// Of the elements, each SUBGROUP_LANES-th.
alias Product = array<f32, OWN_ELEMENTS>;

// The same, and the numbers from row to row and from column to column.
struct Right {
  at: u32,
  row: u32,
  column: u32,
}

struct Lanes {
  @builtin(local_invocation_index) invocation: u32,
}

var<workgroup> left_operands: array<u32, LEFT_NUMBERS / WORD_OPERANDS>;
var<workgroup> right_operands: array<u32, RIGHT_NUMBERS / WORD_OPERANDS>;
var<workgroup> products: array<f32, PRODUCT_NUMBERS>;

// Number of an invocation in its subgroup, once subgroup_number() has been asked for.
var<private> subgroup_lane: u32;

fn subgroup_number(lanes: Lanes) -> u32 {
  subgroup_lane = lanes.invocation % SUBGROUP_LANES;
  return lanes.invocation / SUBGROUP_LANES;
}

fn subgroup_count(lanes: Lanes) -> u32 {
  return SUBGROUPS;
}

fn operand_words(value: vec4f) -> vec4u {
  if HALF_OPERANDS {
    let finite = clamp(value, vec4f(-LARGEST_HALF), vec4f(LARGEST_HALF));
    return vec4u(pack2x16float(finite.xy), pack2x16float(finite.zw), 0u, 0u);
  }
  return bitcast<vec4u>(value);
}

fn stage_left(at: u32, value: vec4f) {
  let words = operand_words(value);
  for (var i = 0u; i < 4u / WORD_OPERANDS; i++) { left_operands[at / WORD_OPERANDS + i] = words[i]; }
}

fn stage_right(at: u32, value: vec4f) {
  let words = operand_words(value);
  for (var i = 0u; i < 4u / WORD_OPERANDS; i++) { right_operands[at / WORD_OPERANDS + i] = words[i]; }
}

fn stage_weight(at: u32, value: vec4f) {
  stage_right(at, value);
}

fn load_left(at: u32) -> Left {
  return at;
}

fn load_right(at: u32) -> Right {
  return Right(at, 1u, OPERAND_STRIDE);
}

fn load_right_rows(at: u32) -> Right {
  return Right(at, VALUE_STRIDE, 1u);
}

// Number `at` of the tile that `word` is of.
fn operand(word: u32, at: u32) -> f32 {
  if HALF_OPERANDS { return unpack2x16float(word)[at % 2u]; }
  return bitcast<f32>(word);
}

fn multiply_add(left: Left, right: Right, sum: Product) -> Product {
  var total = sum;
  // All columns, which compilers do not know: they would write the loops out many times over.
  let columns = select(MATRIX_K, 0u, subgroup_lane >= WORKGROUP_SIZE);
  for (var i = 0u; i < OWN_ELEMENTS; i++) {
    let element = subgroup_lane + i * SUBGROUP_LANES;
    // Beyond the last one it is the last one again, and not used.
    let m = min(element / MATRIX_N, MATRIX_M - 1u);
    let n = element % MATRIX_N;
    for (var k = 0u; k < columns; k++) {
      let l = left + m * OPERAND_STRIDE + k;
      let r = right.at + n * right.column + k * right.row;
      let a = operand(left_operands[l / WORD_OPERANDS], l);
      let b = operand(right_operands[r / WORD_OPERANDS], r);
      total[i] = fma(a, b, total[i]);
    }
  }
  return total;
}

fn store_product(at: u32, product: Product) {
  var own = product;
  for (var i = 0u; i < OWN_ELEMENTS; i++) {
    let element = subgroup_lane + i * SUBGROUP_LANES;
    if element < PRODUCT_ELEMENTS {
      products[at + element / MATRIX_N * PRODUCT_STRIDE + element % MATRIX_N] = own[i];
    }
  }
}
