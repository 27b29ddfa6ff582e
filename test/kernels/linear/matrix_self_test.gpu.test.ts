/** What the start-up self-test finds of subgroup matrices, which are emulated. */
import { expect, test } from "vitest";
import {
  MATRIX_CONFIGS,
  type MatrixConfigName,
} from "../../../kernels/linear/checks/check_matrix.ts";
import type { MatrixConfig } from "../../../kernels/linear/matrix/matrix_tiles.ts";
import type { MatrixUse } from "../../../kernels/linear/matrix_class.ts";
import { matrixKernels } from "../../../kernels/matrix_self_test.ts";
import { Recorder, type RecorderOptions } from "../../../src/gpu/recorder.ts";
import { fullTest, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { type Fault, openEmulatedMatrices } from "../../support/reference/emulated_matrices.ts";

/** Two tiles of values, the second a short one. */
const LATENTS = { latent: 68, rope: 8 };
const ATTENDS: MatrixUse = { decode: true, latents: LATENTS };
const HALF = MATRIX_CONFIGS["f16 16x16x16"];
const SMALL = MATRIX_CONFIGS["f16 8x8x8"];
const NAME = "attention/mla_decode_matrix";

interface Adapter {
  readonly configs: readonly MatrixConfig[];
  readonly faultOf?: (config: MatrixConfig) => Fault | undefined;
}

/** The products that the tiles found are made of, and whether latent attention was tried. */
async function workingConfig(
  { configs, faultOf }: Adapter,
  use: MatrixUse,
  rewrite: NonNullable<RecorderOptions["rewrite"]> = (_, code) => code,
) {
  const { device } = await openEmulatedMatrices(configs, faultOf);
  let attends = false;
  const recorder = new Recorder(device, {
    rewrite: (kernel, code) => {
      attends ||= kernel === NAME;
      return rewrite(kernel, code);
    },
  });
  const tiles = await matrixKernels.workingTiles(recorder, use);
  recorder.destroy();
  device.destroy();
  return { config: tiles?.config, attends };
}

const NAMES: readonly MatrixConfigName[] = fullTest
  ? (Object.keys(MATRIX_CONFIGS) as MatrixConfigName[])
  : ["f16 16x16x16", "f32 8x8x8"];

// The slow driver compiles for seconds what each of these needs.
test.each(smallestCaseOnly ? NAMES.slice(0, 1) : NAMES)(
  "linears and latent attention by products of %s are right",
  async (name) => {
    const config = MATRIX_CONFIGS[name];
    expect(await workingConfig({ configs: [config] }, ATTENDS)).toEqual({ config, attends: true });
  },
);

test.skipIf(smallestCaseOnly)(
  "latent attention is tried where generated rows of a model will run it",
  async () => {
    const faultOf = () => "wrong rows of a right operand" as const;
    for (const use of [{ decode: false, latents: LATENTS }, { decode: true }]) {
      const found = await workingConfig({ configs: [HALF], faultOf }, use);
      expect(found).toEqual({ config: HALF, attends: false });
    }
  },
);

test("products that are right in linears alone are not used, and others are", async () => {
  const faultOf = ({ m }: MatrixConfig) =>
    m === HALF.m ? ("wrong rows of a right operand" as const) : undefined;
  const found = await workingConfig({ configs: [SMALL, HALF], faultOf }, ATTENDS);
  expect(found).toEqual({ config: SMALL, attends: true });
});

/** What a driver might get wrong in the kernel, by text that stands for it. */
const FAULTS: readonly (readonly [name: string, replace: string, instead: string])[] = [
  ["the highest scores of one invocation", "top = max(top, products", "top = min(top, products"],
  ["tiles that are not rescaled", "vec4f(shrinks[t]),", "vec4f(1.0),"],
  ["the first weights only", "if own_key / CHUNK * CHUNK == first", "if own_key < CHUNK"],
  ["the first keys' values only", "entries[first + i / OUTPUT_QUADS]", "entries[i / OUTPUT_QUADS]"],
  ["one tile of values", "c * OUTPUT_QUADS + v", "v"],
  ["rope parts that are not turned", "rows[row].y * (ROPE", "0u * (ROPE"],
  ["keys that end early", "if first + v < KEY_QUADS", "if first + v < VALUE_QUADS"],
  ["a key too many", "key < vec4u(end)", "key < vec4u(end + 1u)"],
  ["outputs that are not divided", "value / sums[t]", "value"],
  ["no text that compiles", "value / sums[t]", "value / nothing"],
];

test.skipIf(smallestCaseOnly).each(fullTest ? FAULTS : FAULTS.slice(0, 3))(
  "finds %s",
  async (_, text, instead) => {
    let planted = false;
    const rewrite = (kernel: string, code: string) => {
      if (kernel !== NAME) return code;
      planted = code.includes(text);
      return code.replaceAll(text, () => instead);
    };
    const found = await workingConfig({ configs: [HALF] }, ATTENDS, rewrite);
    expect(found).toEqual({ config: undefined, attends: true });
    expect(planted).toBe(true);
  },
);
