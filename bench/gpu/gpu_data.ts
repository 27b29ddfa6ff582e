/**
 * Large tensors of numbers that the GPU makes for itself, each word from its place alone: nothing
 * is uploaded, and the host makes again whichever words a reference needs.
 *
 * @module
 */
import { Kernel } from "../../src/gpu/kernel.ts";
import { Recorder } from "../../src/gpu/recorder.ts";
import { allocateTensor, type Tensor } from "../../src/gpu/tensor.ts";
import { device } from "../../test/support/devices/gpu.ts";
import fillSource from "./gpu_fill.wgsl?raw";

/** A word is `(hash & keep) | pattern`. */
export interface WordKind {
  readonly keep: number;
  readonly pattern: number;
}

export const WORDS = {
  any: { keep: 0xffffffff, pattern: 0 },
  zero: { keep: 0, pattern: 0 },
  one: { keep: 0, pattern: 0x3f800000 },
  nan: { keep: 0, pattern: 0x7fc00000 },
  /** Either sign, 0.5 to 1 in size. */
  f32: { keep: 0x807fffff, pattern: 0x3f000000 },
  /** 0.5 to 1. */
  nearOne: { keep: 0x007fffff, pattern: 0x3f000000 },
  /** Two of either sign, 0.5 to 1 in size. */
  bf16: { keep: 0x807f807f, pattern: 0x3f003f00 },
  /** The same, 1/128 to 1/64 in size. */
  smallBf16: { keep: 0x807f807f, pattern: 0x3c003c00 },
  /** Four E4M3 codes below 2, subnormal ones among them. */
  fp8: { keep: 0xbfbfbfbf, pattern: 0 },
  /** A scale of 1/128 to 1/64. */
  scale: { keep: 0x007fffff, pattern: 0x3c000000 },
  /** The same whose low five bits are a zero point of 0 to 15. */
  int4Scale: { keep: 0x007fffef, pattern: 0x3c000000 },
} as const satisfies Readonly<Record<string, WordKind>>;

/** Words `[first, end)` of each `period` words. Default: every word. */
export interface Places {
  readonly period: number;
  readonly first: number;
  readonly end: number;
}

const EVERYWHERE: Places = { period: 1, first: 0, end: 1 };

/** A rule for the words at some places. */
export interface Fill {
  readonly kind: WordKind;
  readonly places?: Places;
}

const fillKernel = new Kernel({
  name: "bench/fill",
  source: fillSource,
  buffers: ["out"],
  params: ["words", "key", "keep", "pattern", "period", "first", "end"],
});
const WORKGROUP_WORDS = 256;
const MOST_WORKGROUPS = 32768;

/** Fills `tensor` on the GPU. Words that no rule is for stay as they are. */
export async function fillTensor(
  tensor: Tensor,
  fills: readonly Fill[],
  seed: number,
): Promise<void> {
  const recorder = new Recorder(device, { maxLaunches: fills.length });
  const words = tensor.size / 4;
  const bound = fills.map(({ kind, places = EVERYWHERE }) =>
    fillKernel.bind(
      recorder,
      { out: tensor },
      { params: { words, key: keyOf(seed), ...kind, ...places } },
    ),
  );
  await recorder.pipelines.ready();
  const groups = Math.ceil(words / WORKGROUP_WORDS);
  const across = Math.min(groups, MOST_WORKGROUPS);
  for (const launch of bound) launch.record(across, Math.ceil(groups / across));
  recorder.submit();
  await device.queue.onSubmittedWorkDone();
  recorder.destroy();
}

/** A filled tensor, and its words as the host makes them. */
export interface MadeTensor {
  readonly tensor: Tensor;
  word(index: number): number;
  /** The word as the bits of an f32. */
  float(index: number): number;
}

let tensors = 0;

/** A new tensor of `words` words; no two are alike. */
export async function makeTensor(
  label: string,
  words: number,
  ...fills: readonly Fill[]
): Promise<MadeTensor> {
  tensors += 1;
  const tensor = allocateTensor(device, words * 4, label);
  return madeIn(tensor, fills, tensors);
}

/** The same in a tensor that is there already. */
export async function madeIn(
  tensor: Tensor,
  fills: readonly Fill[],
  seed: number,
): Promise<MadeTensor> {
  await fillTensor(tensor, fills, seed);
  const key = keyOf(seed);
  const [only] = fills;
  const alike = fills.length === 1 && only!.places === undefined ? only!.kind : undefined;
  const word = (index: number) => {
    if (alike !== undefined) return ((hash(index, key) & alike.keep) | alike.pattern) >>> 0;
    const rule = fills.findLast(({ places = EVERYWHERE }) => isAt(places, index));
    return rule === undefined ? 0 : ((hash(index, key) & rule.kind.keep) | rule.kind.pattern) >>> 0;
  };
  return { tensor, word, float: (index) => floatOf(word(index)) };
}

function isAt({ period, first, end }: Places, index: number): boolean {
  const place = index % period;
  return place >= first && place < end;
}

const keyOf = (seed: number) => Math.imul(seed, 0x9e3779b1) >>> 0;

/** What gpu_fill.wgsl has under this name. */
function hash(index: number, key: number): number {
  let x = index ^ key;
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  return x ^ (x >>> 15);
}

const bits = new Uint32Array(1);
const float = new Float32Array(bits.buffer);

export function floatOf(word: number): number {
  bits[0] = word;
  return float[0]!;
}
