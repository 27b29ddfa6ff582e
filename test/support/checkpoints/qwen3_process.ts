/**
 * Models of Qwen3-0.6B's shape, loaded from a folder by the built library in a process of its own.
 *
 * @module
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { qwen3 } from "../synthetic/qwen3.ts";
import type { SyntheticModel } from "../synthetic/source.ts";

/** What bench/support/qwen3_child.mjs prints. */
export interface Qwen3Report {
  readonly adapter: string;
  readonly loaded: {
    readonly seconds: number;
    readonly weightsSeconds: number;
    /** JavaScript heap and array buffers together. */
    readonly peakHeap: number;
    readonly peakResident: number;
    /** Of the GPU when the last weights had come. */
    readonly bufferBytes: number;
  };
  /** When everything was generated. */
  readonly after: { readonly peakResident: number; readonly bufferBytes: number };
  readonly weightBytes: number;
  readonly cacheBytes: number;
  /** Of weights, read for a decoded token. */
  readonly bytesPerToken: number;
  /** Matrices that were quantized, and the largest relative error of one. */
  readonly quantized: number;
  readonly worstError: number;
  readonly runs: readonly (Speed & {
    /** When every sequence has its first token. */
    readonly launchesPerStep: number;
    readonly tokens: readonly number[];
  })[];
}

/** Tokens a second; processor seconds of all threads for a token. */
export interface Speed {
  readonly prefill: number;
  readonly prefillCpu: number;
  readonly decode: number;
  readonly decodeCpu: number;
}

export interface Qwen3Run {
  /** Folder of the built library. */
  readonly dist: string;
  /** Folder of the checkpoint. */
  readonly model: string;
  /** What `Engine.load` is told, without functions. */
  readonly options: Readonly<Record<string, unknown>>;
  /** Sequences at once. Default 1. */
  readonly batch?: number;
  /** Prompt tokens of each. */
  readonly prompt: number;
  /** First tokens of all prompts that are the same, and computed once. Default 0. */
  readonly shared?: number;
  readonly generated: number;
  readonly rounds: number;
}

/** JavaScript heap and array buffers while loading, whatever the model's size. */
export const MOST_HEAP_BYTES = 256 * 2 ** 20;
/** Resident memory less GPU buffers, which lie in the process on an adapter that is the CPU. */
export const MOST_RESIDENT_BYTES = 600e6;

export const QWEN3_LAYERS = 28;

const root = fileURLToPath(new URL("../../..", import.meta.url));
const run = promisify(execFile);

/** The published sizes, and as many layers as asked for. */
export function qwen3Sized(layers = QWEN3_LAYERS): SyntheticModel {
  return qwen3({ num_hidden_layers: layers, vocab_size: 151_936 });
}

export async function runQwen3(options: Qwen3Run): Promise<Qwen3Report> {
  const child = join(root, "bench", "support", "qwen3_child.mjs");
  const { stdout } = await run(process.execPath, [child, JSON.stringify(options)]);
  return JSON.parse(stdout.trim().split("\n").at(-1)!) as Qwen3Report;
}

/** Resident memory beside GPU buffers: the largest while loading and afterwards. */
export function residentBesideBuffers({ loaded, after }: Qwen3Report): number {
  return Math.max(...[loaded, after].map((at) => at.peakResident - at.bufferBytes));
}
