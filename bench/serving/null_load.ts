/**
 * Stands in for src/engine/load/load.ts where a bench wants everything of a server but the computing: the
 * engine on top of it is the real one, and its steps end at once, on the host.
 *
 * @module
 */
import type { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import type { EngineOptions } from "../../src/engine/engine_options.ts";
import { defineModel } from "../../src/engine/load/define_model.ts";
import type { LoadedModel } from "../../src/engine/load/load.ts";
import { resolveOptions } from "../../src/engine/resolve_options.ts";
import type { Batch } from "../../src/layers/batch.ts";
import { nullToken } from "./null_token.ts";

export interface NullOptions extends EngineOptions {
  /** Milliseconds that a step takes. Default: it is over at once. */
  readonly stepMs?: number;
}

/** A model of the checkpoint's shape whose tokens depend on nothing but their positions. */
export async function loadModel(checkpoint: Checkpoint, given: NullOptions): Promise<LoadedModel> {
  const { definition } = await defineModel(checkpoint, undefined);
  const options = resolveOptions(given, definition);
  const cacheTokens = options.maxRunningRequests * options.contextLength;
  const loaded = {
    device: { lost: new Promise(() => {}) },
    definition,
    options,
    memoryBudget: { cacheTokens },
    runner: new NullRunner(options.maxRows, given.stepMs ?? 0),
    selfTest: { batchInvariant: true },
    quantizationErrors: [],
    destroy() {},
  };
  return loaded as unknown as LoadedModel;
}

class NullRunner {
  readonly maxScoredRows: number;
  readonly #stepMs: number;
  /** When the steps that were given to it are over. */
  #busyUntil = 0;

  constructor(maxScoredRows: number, stepMs: number) {
    this.maxScoredRows = maxScoredRows;
    this.#stepMs = stepMs;
  }

  /** One step, behind those before it. As on a GPU, its tokens come in a later turn of the event loop. */
  async submit({ sequences, logitRows }: Batch) {
    const tokens = new Uint32Array(logitRows.length);
    let at = 0;
    for (const { queryStart, queryLength, position } of sequences) {
      if (logitRows[at] !== queryStart + queryLength - 1) continue;
      tokens[at++] = nullToken(position + queryLength);
    }
    return { tokens: this.#finish(tokens) };
  }

  #finish(tokens: Uint32Array): Promise<Uint32Array> {
    if (this.#stepMs === 0) return new Promise((resolve) => setImmediate(resolve, tokens));
    const now = performance.now();
    this.#busyUntil = Math.max(this.#busyUntil, now) + this.#stepMs;
    return new Promise((resolve) => setTimeout(resolve, this.#busyUntil - now, tokens));
  }
}
