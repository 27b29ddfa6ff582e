/**
 * Our kernels beside those of ONNX Runtime's WebGPU provider, on one adapter and in one run:
 * `npm run bench:peers -- onnx_runtime [matvec|matmul|attention..]`.
 *
 * A call uploads its input, launches, waits and reads its output back, on both sides. Calls of ours
 * and of theirs take turns, and the least of the rounds counts. What of a launch is not a call's own
 * is seen where a call has eight of them. Times are of the wall and of the processor; the second says
 * more where others use the machine. Drivers have the threads that `LP_NUM_THREADS` gives them.
 *
 * @module
 */
import { availableParallelism, loadavg } from "node:os";
import gqaDecode from "../../kernels/attention/gqa/gqa_decode.check.ts";
import {
  type GqaShape,
  gqaCacheBytes,
  gqaInputs,
} from "../../kernels/attention/gqa/gqa_reference.ts";
import mlaDecode from "../../kernels/attention/mla/mla_decode.check.ts";
import { adapter, seeded } from "../../test/support/devices/gpu.ts";
import { table } from "../support/table.ts";
import { ourCheckedKernel, ourLinear, type WeightForm } from "./llama_cpp/our_calls.ts";
import { groupQueryAttention, type MatrixShape, matMul, matMulNBits } from "./onnx/onnx_graphs.ts";
import {
  type CallTime,
  type Contestant,
  ONNX_RUNTIME,
  OnnxRuntime,
} from "./onnx/onnx_runtime_process.ts";

const ROUNDS = Number(process.env.WISP_ROUNDS ?? 5);
/** Of one contestant in a round. */
const ROUND_SECONDS = 0.06;
const MOST_CALLS = 20;
const LAUNCHES = [1, 8];

const FORMS: readonly WeightForm[] = [
  { dtype: "fp8" },
  { dtype: "bf16" },
  { dtype: "int8" },
  { dtype: "int4", groupColumns: 32 },
  { dtype: "int4", groupColumns: 64 },
];
const MATRICES = [
  { columns: 1024, outputs: 3072 },
  { columns: 2048, outputs: 2048 },
  { columns: 4096, outputs: 4096 },
];
const MANY_ROWS = 256;
const KEYS = [512, 2048, 8192];

const sections = { matvec, matmul, attention };
type Section = keyof typeof sections;

/** @param names Sections; all when none is given. */
export async function main(names: readonly string[]): Promise<void> {
  const known = Object.keys(sections);
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new Error(`Cannot run ${unknown}: known are ${known}`);
  const threads = process.env.LP_NUM_THREADS ?? `${availableParallelism()}`;
  console.log(`${adapter.name} (${adapter.driver}), driver threads ${threads}; ${ONNX_RUNTIME}`);
  const runtime = new OnnxRuntime();
  try {
    for (const name of names.length > 0 ? (names as readonly Section[]) : known) {
      await sections[name as Section](runtime);
    }
  } finally {
    runtime.close();
  }
}

interface Measured extends CallTime {
  readonly name: string;
  readonly launches: number;
}

/** Every engine in turn, several rounds; the least of each. */
async function race(contestants: readonly Contestant[]): Promise<Measured[]> {
  const counts: number[] = [];
  for (const one of contestants) {
    const { seconds } = await one.run(2);
    counts.push(Math.max(1, Math.min(Math.ceil(ROUND_SECONDS / seconds), MOST_CALLS)));
  }
  const never = Number.POSITIVE_INFINITY;
  const least = contestants.map(() => ({ seconds: never, cpuSeconds: never }));
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, one] of contestants.entries()) {
      const { seconds, cpuSeconds } = await one.run(counts[i]!);
      least[i]!.seconds = Math.min(least[i]!.seconds, seconds);
      least[i]!.cpuSeconds = Math.min(least[i]!.cpuSeconds, cpuSeconds);
    }
  }
  for (const one of contestants) await one.close();
  return contestants.map(({ name, launches }, i) => ({ name, launches, ...least[i]! }));
}

interface Report {
  /** Weights, operations or bytes of one launch, by contestant. */
  readonly work: (name: string) => number;
  /** What a thousand million of them a second are called. */
  readonly unit: string;
  /** Names of those that ratios are wanted to. */
  readonly peers: readonly string[];
}

function report(title: string, measured: readonly Measured[], { work, unit, peers }: Report): void {
  const rate = (one: Measured, time: keyof CallTime) => (work(one.name) * one.launches) / one[time];
  const ratios = (one: Measured) =>
    peers.flatMap((name) => {
      const of = (launches: number) =>
        measured.find((peer) => peer.name === name && peer.launches === launches);
      const peer = of(one.launches) ?? of(1)!;
      return (["seconds", "cpuSeconds"] as const).map((time) =>
        (rate(one, time) / rate(peer, time)).toFixed(2),
      );
    });
  const rows = measured.map((one) => [
    one.name,
    `${one.launches}`,
    (one.seconds * 1e3).toFixed(2),
    (one.cpuSeconds * 1e3).toFixed(2),
    (rate(one, "seconds") / 1e9).toFixed(2),
    (rate(one, "cpuSeconds") / 1e9).toFixed(2),
    ...ratios(one),
  ]);
  const header = ["kernel", "launches", "ms", "cpu ms", unit, `${unit} cpu`];
  const compared = peers.flatMap((name) => [`x ${name}`, "cpu"]);
  console.log(`\n${title}, load average ${loadavg()[0]!.toFixed(1)}`);
  console.log(table([...header, ...compared], rows));
}

/** One row. */
async function matvec(runtime: OnnxRuntime): Promise<void> {
  for (const matrix of MATRICES) await matrices(runtime, { rows: 1, ...matrix }, LAUNCHES);
}

async function matmul(runtime: OnnxRuntime): Promise<void> {
  for (const matrix of MATRICES.slice(0, 2)) {
    await matrices(runtime, { rows: MANY_ROWS, ...matrix }, [1]);
  }
}

async function matrices(
  runtime: OnnxRuntime,
  shape: MatrixShape,
  launches: readonly number[],
): Promise<void> {
  const random = seeded(2);
  const contestants: Contestant[] = [];
  for (const count of launches) {
    for (const form of FORMS) contestants.push(await ourLinear(shape, { form, launches: count }));
    const peer = matMulNBits(shape, { launches: count, random });
    contestants.push(await runtime.open(peer));
  }
  contestants.push(await runtime.open(matMul(shape, "f16", { random })));
  contestants.push(await runtime.open(matMul(shape, "f32", { random })));
  const { rows, columns, outputs } = shape;
  const measured = await race(contestants);
  const [work, unit] =
    rows === 1 ? [columns * outputs, "Gweights/s"] : [2 * rows * columns * outputs, "GFLOP/s"];
  report(`${rows} x ${columns} by ${outputs} x ${columns}`, measured, {
    work: () => work,
    unit,
    peers: ["MatMulNBits 4-bit", "MatMul f16"],
  });
}

/**
 * One query row of 16 heads; 8 heads of keys and values, or latents. Those are few bytes with many
 * operations each, so their rate is beside the others for information only.
 */
async function attention(runtime: OnnxRuntime): Promise<void> {
  for (const keys of KEYS) {
    const shape = (dtype: GqaShape["dtype"]): GqaShape => ({
      sequences: [{ first: keys - 1, rows: 1 }],
      heads: 16,
      kvHeads: 8,
      headDim: 128,
      pageSize: 64,
      splitLength: 256,
      dtype,
    });
    const latents = {
      lengths: [keys],
      heads: 16,
      latent: 512,
      rope: 64,
      nope: 128,
      pageSize: 64,
      splitLength: 2048,
      dtype: "bf16",
    } as const;
    const bytes = new Map<string, number>();
    const contestants: Contestant[] = [];
    for (const dtype of ["f32", "bf16"] as const) {
      const name = `gqa_decode ${dtype}`;
      contestants.push(await ourCheckedKernel(gqaDecode, shape(dtype), { name, query: "q" }));
      bytes.set(name, gqaCacheBytes(shape(dtype)));
    }
    const name = "mla_decode bf16";
    contestants.push(await ourCheckedKernel(mlaDecode, latents, { name, query: "q_absorbed" }));
    bytes.set(name, mlaDecode.bytes(latents));
    const held = shape("f32");
    const peer = groupQueryAttention(held, gqaInputs(held, seeded(1)));
    contestants.push(await runtime.open(peer));
    bytes.set(peer.name, gqaCacheBytes(held));
    const measured = await race(contestants);
    const title = `attention over ${keys} keys`;
    const peers = [peer.name];
    report(title, measured, { work: (one) => bytes.get(one)!, unit: "GB/s of cache", peers });
  }
}
