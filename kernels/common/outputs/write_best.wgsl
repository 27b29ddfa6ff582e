// Where the sums of a linear kernel go when only the largest of a row is wanted: of each tile of
// outputs, those of a workgroup, the best, as (ordered bits, column). A row has its tiles side by
// side from `first_tile` on. Needs ordered_bits.wgsl.
//
//   out  [rows, out_stride]  u32  write
//
// Every invocation of the workgroup must call write_outputs(), in uniform control flow.

@group(0) @binding(4) var<storage, read_write> out: array<u32>;
@group(0) @binding(5) var<uniform> params: Params;

// By row and holder.
var<workgroup> bests: array<vec2u, TOKENS * ROW_LANES>;

// The parameters of write_sums.wgsl.
fn write_outputs(
  sums: Sums, first_row: u32, output: vec4u, end: u32, invocation: u32, tile: u32,
) {
  if holds_sums(invocation) {
    for (var t = 0u; t < TOKENS; t++) {
      var best = vec2u(0u, 0xffffffffu);
      for (var i = 0u; i < 4u; i++) {
        // Beyond the last output stand its sums again, which lose to it.
        best = better_of(best, vec2u(ordered_bits(sums[t][i]), params.out_column + output[i]));
      }
      bests[t * ROW_LANES + invocation] = best;
    }
  }
  workgroupBarrier();
  for (var t = invocation; t < TOKENS; t += WORKGROUP_SIZE) {
    if first_row + t < params.rows {
      var best = bests[t * ROW_LANES];
      for (var i = 1u; i < ROW_LANES; i++) { best = better_of(best, bests[t * ROW_LANES + i]); }
      let at = (first_row + t) * params.out_stride + 2u * (params.first_tile + tile);
      out[at] = best.x;
      out[at + 1u] = best.y;
    }
  }
}
