import { mlaMatrixCheck } from "./check_mla_matrix.ts";

const sizes = { nope: 2, rope: 8, pageSize: 3, splitLength: 128 } as const;

// Operands in f32, so that nothing hides behind their rounding: that is checked beside this.
export default mlaMatrixCheck({
  name: "attention/mla_decode_matrix",
  config: "f32 8x8x8",
  cases: [
    // A tile and a bit; one key; three splits, the last one short; two tiles of heads and of values.
    { ...sizes, lengths: [70, 1, 300], heads: 19, latent: 68, dtype: "bf16" },
    // One split: written without a reduce.
    { ...sizes, lengths: [128, 9], heads: 3, latent: 24, pageSize: 1, dtype: "f32" },
    // Runs of 128 and of 12, each with a scale.
    { ...sizes, lengths: [90, 131], heads: 5, latent: 140, dtype: "fp8_e4m3" },
    { ...sizes, lengths: [150, 150], heads: 16, latent: 128, rope: 16, dtype: "bf16" },
  ],
  tolerance: 3e-5,
  mutants: [
    { name: "the scale is dropped", replace: "* params.scale", with: "" },
    { name: "every row reads the first table", replace: "rows[row].w", with: "0u" },
    { name: "a key too many is seen", replace: "rows[row].y + 1u", with: "rows[row].y + 2u" },
    { name: "every key is seen", replace: "key < vec4u(end)", with: "key < vec4u(end + 64u)" },
    { name: "the rope part is not turned", replace: "rows[row].y * (ROPE", with: "0u * (ROPE" },
    { name: "the nope part is not skipped", replace: "+ params.nope +", with: "+" },
    { name: "the stride is ignored", replace: "row * params.q_stride", with: "row * params.heads" },
    {
      name: "keys end early",
      replace: "if first + v < KEY_QUADS",
      with: "if first + v < VALUE_QUADS",
    },
    { name: "tiles are not rescaled", replace: "vec4f(shrinks[t]),", with: "vec4f(1.0)," },
    {
      name: "weights are not rescaled",
      replace: "fma(sums[t], shrinks[t],",
      with: "fma(sums[t], 1.0,",
    },
    { name: "splits all start at key 0", replace: "group.z * params.split_length", with: "0u" },
    {
      name: "splits lie on each other",
      replace: "params.max_splits + group.z",
      with: "params.max_splits",
    },
    { name: "the output is not divided", replace: "value / sums[t]", with: "value", case: 1 },
    { name: "one tile of heads", replace: "group.y * TILE_ROWS", with: "0u * TILE_ROWS" },
    { name: "one tile of values", replace: "c * OUTPUT_QUADS + v", with: "v" },
    {
      name: "values beyond the last",
      replace: "if column >= LATENT",
      with: "if column >= 2u * LATENT",
    },
    {
      name: "the first weights only",
      replace: "if own_key / CHUNK * CHUNK == first",
      with: "if own_key < CHUNK",
    },
    {
      name: "the first keys' values only",
      replace: "entries[first + i / OUTPUT_QUADS]",
      with: "entries[i / OUTPUT_QUADS]",
    },
    {
      name: "values by columns",
      replace: "multiply_chunk(&sums, true",
      with: "multiply_chunk(&sums, false",
    },
    {
      name: "one invocation's highest",
      replace: "top = max(top, products",
      with: "top = min(top, products",
    },
  ],
});
