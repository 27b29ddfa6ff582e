import { mlaMatrixCheck } from "./check_mla_matrix.ts";

const sizes = { nope: 2, rope: 8, pageSize: 3, splitLength: 128 } as const;

// The reference rounds queries and entries as the class does, but not turned rope parts and weights,
// whose rounding depends on the tiles: those keep 11 bits, of numbers that add up to one.
export default mlaMatrixCheck({
  name: "attention/mla_decode_matrix in f16",
  config: "f16 16x16x16",
  cases: [
    { ...sizes, lengths: [70, 1, 300], heads: 19, latent: 68, dtype: "bf16" },
    { ...sizes, lengths: [90, 131], heads: 5, latent: 140, dtype: "fp8_e4m3" },
  ],
  tolerance: 2e-3,
  mutants: [
    {
      name: "the first weights only",
      replace: "if own_key / CHUNK * CHUNK == first",
      with: "if own_key < CHUNK",
    },
    {
      name: "values by columns",
      replace: "multiply_chunk(&sums, true",
      with: "multiply_chunk(&sums, false",
    },
  ],
});
