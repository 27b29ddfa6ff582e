/**
 * A checkpoint read by the code of the engine's start up to where a device is needed.
 *
 * @module
 */
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import { memorySource } from "../../../src/checkpoint/memory_source.ts";
import { modelHash } from "../../../src/checkpoint/model_hash.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { inspectCheckpoint } from "../../../src/engine/load/inspect_checkpoint.ts";
import { prepareLoad } from "../../../src/engine/load/prepare_load.ts";
import { loadText } from "../../../src/engine/load/text_model.ts";
import type { Files } from "./base_checkpoints.ts";

export interface Outcome {
  /** What was tried. */
  readonly step: "weights" | "report" | "text";
  /** What it was refused with; undefined where it loaded. */
  readonly error: unknown;
}

export interface Reading {
  readonly outcomes: readonly Outcome[];
  /** Bytes that were read of all files. */
  readonly bytesRead: number;
  /** Reads that went beyond their file. */
  readonly beyond: number;
}

const WEIGHTS = /^config\.json$|safetensors/;
const OF_WEIGHTS_ALONE = /safetensors/;

const MESSAGES = [
  { role: "system", content: "Be brief." },
  { role: "user", content: "What is 12 × 12?" },
];

/**
 * @param device Only asked for its limits and its name.
 * @param changed Files that differ from a checkpoint that loads: what reads none of them is left
 * out. Default: all.
 */
export async function loadWithoutGpu(
  files: Files,
  device: GPUDevice,
  changed: readonly string[] = Object.keys(files),
): Promise<Reading> {
  let bytesRead = 0;
  let beyond = 0;
  const held = memorySource(files);
  const source: WeightSource = {
    ...held,
    read(file, offset, length) {
      bytesRead += length;
      if (offset + length > (files[file]?.length ?? 0)) beyond++;
      return held.read(file, offset, length);
    },
  };
  const outcomes: Outcome[] = [];
  if (changed.some((name) => WEIGHTS.test(name))) {
    const weights = attempt("weights", async () => {
      const checkpoint = await Checkpoint.open(source);
      await prepareLoad(checkpoint, { device });
      await modelHash(checkpoint);
    });
    outcomes.push(await weights, await attempt("report", () => inspectCheckpoint(source)));
  }
  if (changed.some((name) => !OF_WEIGHTS_ALONE.test(name))) {
    const text = attempt("text", async () => {
      const { tokenizer, createChat } = await loadText(source);
      tokenizer.prepare();
      const prompt = createChat().render({ messages: MESSAGES, addGenerationPrompt: true });
      tokenizer.decode(tokenizer.encodePrompt(prompt));
    });
    outcomes.push(await text);
  }
  return { outcomes, bytesRead, beyond };
}

async function attempt(step: Outcome["step"], work: () => Promise<unknown>): Promise<Outcome> {
  try {
    await work();
    return { step, error: undefined };
  } catch (error) {
    return { step, error };
  }
}
