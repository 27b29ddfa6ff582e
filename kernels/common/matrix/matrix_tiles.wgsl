// Tiles of numbers in workgroup memory, multiplied by the subgroups of a workgroup: the one file that
// knows of chromium_experimental_subgroup_matrix. matrix_tiles_emulated.wgsl has the same
// functions without it, for checks.
//
// A kernel stages operands, has its subgroups multiply them in pieces of the adapter's sizes, with sums
// in f32, and reads the sums back from `products`. Barriers between the three are the kernel's.
//
// Stands in front of all other text. Needs the constants LEFT_NUMBERS, RIGHT_NUMBERS and
// PRODUCT_NUMBERS, the sizes of the three tiles, and OPERAND_STRIDE and PRODUCT_STRIDE, the numbers
// from row to row: rows of the right operand are the columns of its matrices, or with VALUE_STRIDE
// their rows.

enable chromium_experimental_subgroup_matrix;
enable subgroups;
// A subgroup has one number, which a compiler cannot know of a field of a struct.
diagnostic(off, chromium.subgroup_matrix_uniformity);

alias Operand = f32;
// Operands are f16: numbers beyond its range become its largest ones.
const HALF_OPERANDS = false;
// A left matrix has M rows and K columns, a right one K and N.
const MATRIX_M = 8u;
const MATRIX_N = 8u;
const MATRIX_K = 8u;
const LARGEST_HALF = 65504.0;

alias Left = subgroup_matrix_left<Operand, MATRIX_K, MATRIX_M>;
alias Right = subgroup_matrix_right<Operand, MATRIX_N, MATRIX_K>;
alias Product = subgroup_matrix_result<f32, MATRIX_N, MATRIX_M>;

struct Lanes {
  @builtin(local_invocation_index) invocation: u32,
  @builtin(subgroup_id) subgroup: u32,
  @builtin(num_subgroups) subgroups: u32,
}

var<workgroup> left_operands: array<Operand, LEFT_NUMBERS>;
var<workgroup> right_operands: array<Operand, RIGHT_NUMBERS>;
var<workgroup> products: array<f32, PRODUCT_NUMBERS>;

// Number of an invocation's subgroup in the workgroup, and how many there are.
fn subgroup_number(lanes: Lanes) -> u32 {
  return lanes.subgroup;
}

fn subgroup_count(lanes: Lanes) -> u32 {
  return lanes.subgroups;
}

fn operands(value: vec4f) -> vec4<Operand> {
  if HALF_OPERANDS {
    return vec4<Operand>(clamp(value, vec4f(-LARGEST_HALF), vec4f(LARGEST_HALF)));
  }
  return vec4<Operand>(value);
}

// Four numbers from number `at` of a tile on, a multiple of 4.
fn stage_left(at: u32, value: vec4f) {
  let numbers = operands(value);
  for (var i = 0u; i < 4u; i++) { left_operands[at + i] = numbers[i]; }
}

fn stage_right(at: u32, value: vec4f) {
  let numbers = operands(value);
  for (var i = 0u; i < 4u; i++) { right_operands[at + i] = numbers[i]; }
}

// The same for weights, none of which lies beyond the range.
fn stage_weight(at: u32, value: vec4f) {
  let numbers = vec4<Operand>(value);
  for (var i = 0u; i < 4u; i++) { right_operands[at + i] = numbers[i]; }
}

// The matrix whose first number is number `at` of its tile. Only as long as the tile stays as it is.
fn load_left(at: u32) -> Left {
  return subgroupMatrixLoad<Left, row_major>(&left_operands, at, OPERAND_STRIDE);
}

fn load_right(at: u32) -> Right {
  return subgroupMatrixLoad<Right, col_major>(&right_operands, at, OPERAND_STRIDE);
}

fn load_right_rows(at: u32) -> Right {
  return subgroupMatrixLoad<Right, row_major>(&right_operands, at, VALUE_STRIDE);
}

fn multiply_add(left: Left, right: Right, sum: Product) -> Product {
  return subgroupMatrixMultiplyAccumulate(left, right, sum);
}

fn store_product(at: u32, product: Product) {
  subgroupMatrixStore<row_major>(&products, at, product, PRODUCT_STRIDE);
}
