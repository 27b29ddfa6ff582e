/**
 * The recorded inputs and outputs of single kernels, and one launch over such inputs.
 *
 * @module
 */
import { existsSync, readFileSync } from "node:fs";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { type Tensor, whole } from "../../../src/gpu/tensor.ts";
import { device, download, upload } from "./gpu.ts";

const FILE = "../shared/data/golden/kernels.json";

/** A tensor: little endian bytes. */
export interface Encoded {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly b64: string;
}

export const goldenKernelsAbsent = !existsSync(FILE);
if (goldenKernelsAbsent) console.warn(`skipped: ${FILE} is not here`);

/** The whole file, or undefined where it is absent. */
export function readGoldenKernels<T>(): T | undefined {
  return goldenKernelsAbsent ? undefined : (JSON.parse(readFileSync(FILE, "utf8")) as T);
}

export const bytesOf = ({ b64 }: Encoded) => new Uint8Array(Buffer.from(b64, "base64"));
export const floatsOf = (encoded: Encoded) => new Float32Array(bytesOf(encoded).buffer);
export const wholesOf = (encoded: Encoded) => new Int32Array(bytesOf(encoded).buffer);

/** Runs one launch whose output is filled with NaN before. */
export async function launch(
  outputs: number,
  bind: (recorder: Recorder, out: Tensor) => () => void,
): Promise<Float32Array> {
  const recorder = new Recorder(device, { maxLaunches: 4 });
  const out = upload(new Float32Array(outputs).fill(Number.NaN));
  const record = bind(recorder, whole(out));
  await recorder.pipelines.ready();
  record();
  recorder.submit();
  return new Float32Array(await download(out));
}
