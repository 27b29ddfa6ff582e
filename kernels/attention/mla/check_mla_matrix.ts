/**
 * The check of `mlaDecodeMatrix`: that of `mlaDecode` with other operands.
 *
 * @module
 */
import { isFp8 } from "../../cache/cache_kernel.ts";
import { decodeBf16 } from "../../cache/host_cache.ts";
import { decodeFp8Latents } from "../../cache/host_fp8.ts";
import { defineCheck, type HostArrays, type KernelCheck, type Mutant } from "../../check.ts";
import { asOperands, emulatedTiles, MATRIX_CONFIGS } from "../../linear/checks/check_matrix.ts";
import { type MlaRowsShape, queryStride, SCALE, splitsOf } from "./check_mla_rows.ts";
import check from "./mla_decode.check.ts";
import { mlaDecodeMatrix } from "./mla_decode_matrix.ts";

type ConfigName = keyof typeof MATRIX_CONFIGS;

/** Queries and entries as operands: a query is rounded once it is turned, which the rope table is not. */
function rounded(shape: MlaRowsShape, inputs: HostArrays, config: ConfigName): HostArrays {
  if (MATRIX_CONFIGS[config].operand === "f32") return inputs;
  const operands = (values: Float32Array) => asOperands(values, MATRIX_CONFIGS[config]);
  const { dtype } = shape;
  const stored = inputs.cache as Uint32Array;
  const entries = isFp8(dtype)
    ? decodeFp8Latents(stored, shape, dtype as "fp8_e4m3")
    : dtype === "bf16"
      ? decodeBf16(stored)
      : (inputs.cache as Float32Array);
  return {
    ...inputs,
    q_absorbed: operands(inputs.q_absorbed as Float32Array),
    cache: operands(Float32Array.from(entries)),
  };
}

export function mlaMatrixCheck(options: {
  readonly name: string;
  readonly config: ConfigName;
  readonly cases: readonly MlaRowsShape[];
  readonly tolerance: number;
  readonly mutants: readonly Mutant[];
}): KernelCheck<MlaRowsShape> {
  const { config } = options;
  return defineCheck<MlaRowsShape>({
    ...check,
    ...options,
    tunings: [
      { workgroup: 128, subgroups: 4 },
      { workgroup: 256, subgroups: 2 },
    ],
    exactAcrossTunings: true,

    reference(shape, inputs) {
      const own = rounded(shape, inputs, config);
      const dtype = own === inputs ? shape.dtype : "f32";
      return check.reference({ ...shape, dtype }, own);
    },

    bind(recorder, shape, tensors, tuning) {
      const { lengths, heads, latent, rope, nope, pageSize, splitLength, dtype } = shape;
      const launch = mlaDecodeMatrix(recorder, {
        queryAbsorbed: tensors.q_absorbed!,
        query: tensors.q!,
        queryStride: queryStride(shape),
        cache: tensors.cache!,
        cacheDtype: dtype,
        rows: tensors.rows!,
        pageTables: tensors.page_tables!,
        ropeTable: tensors.rope_table!,
        partials: tensors.partials!,
        out: tensors.out!,
        heads,
        latent,
        rope,
        nope,
        pageSize,
        splitLength,
        scale: SCALE,
        tiles: emulatedTiles(MATRIX_CONFIGS[config], tuning),
      });
      return () => launch(lengths.length, splitsOf(shape));
    },
  });
}
