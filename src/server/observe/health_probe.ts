/**
 * Whether the model works, found out once for all who ask.
 *
 * `/health_generate` asks for no key, so what it costs must not depend on how many ask: one probe
 * runs at a time, at most one begins in a second, and a model that others see working has none.
 *
 * @module
 */
import { CapacityError } from "../../errors.ts";
import type { GenerationEngine } from "../../generation.ts";
import type { EngineObserver } from "./observe.ts";

/** Milliseconds from the beginning of one probe to that of the next, and between two looks of one. */
export const SECOND = 1000;
/** What ids of the requests begin with that find out whether the model works. */
export const HEALTH_CHECK = "HEALTH_CHECK_";

export interface HealthProbeOptions {
  /** As it is, so that no observer is told of a probe. */
  readonly engine: GenerationEngine;
  /** Seconds within which a token must have come. */
  readonly timeout: number;
}

interface Probe {
  readonly startedAt: number;
  readonly works: Promise<boolean>;
  isOver: boolean;
}

export class HealthProbe {
  readonly #options: HealthProbeOptions;
  /** The one that runs, or else the last one. */
  #latest: Probe | undefined;
  /** When a request was last given something, in milliseconds. */
  #heardAt = Number.NEGATIVE_INFINITY;
  /** Called whenever a request is given something. */
  #onChunk = () => {};

  constructor(options: HealthProbeOptions) {
    this.#options = options;
  }

  /** Hears of the requests that clients have sent: what they are given shows that the model works. */
  readonly observer: EngineObserver = () => ({
    chunk: () => {
      this.#heardAt = performance.now();
      this.#onChunk();
    },
    end: () => {},
  });

  /**
   * Joins the probe that runs, takes the result of one that began within the last second, or begins
   * one. An engine that is busy shows that it works by any step that it finishes, so that a long
   * queue is no illness. One that sleeps is not woken to find out.
   *
   * @returns False when nothing has come in time.
   * @throws what the engine throws, to the caller that began the probe; the others are told false.
   */
  works(): Promise<boolean> {
    const { sleep, healthy } = this.#options.engine.status();
    if (sleep !== undefined) return Promise.resolve(healthy);
    const now = performance.now();
    const latest = this.#latest;
    if (latest !== undefined && (!latest.isOver || now - latest.startedAt < SECOND)) {
      return latest.works.catch(() => false);
    }
    const works = now - this.#heardAt < SECOND ? Promise.resolve(true) : this.#probe();
    const probe: Probe = { startedAt: now, works, isOver: false };
    const end = () => {
      probe.isOver = true;
    };
    works.then(end, end);
    this.#latest = probe;
    return works;
  }

  async #probe(): Promise<boolean> {
    const { engine, timeout } = this.#options;
    const over = new AbortController();
    const hasStepped = stepLook(engine);
    hasStepped();
    let looks: ReturnType<typeof setInterval> | undefined;
    let deadline: ReturnType<typeof setTimeout> | undefined;
    try {
      return await new Promise<boolean>((resolve, reject) => {
        this.#onChunk = () => resolve(true);
        // Chunks of long prompts are steps that give no request anything.
        looks = setInterval(() => hasStepped() && resolve(true), SECOND);
        deadline = setTimeout(() => resolve(hasStepped()), 1000 * timeout);
        generatesToken(engine, over.signal).then((isToken) => isToken && resolve(true), reject);
      });
    } finally {
      this.#onChunk = () => {};
      clearInterval(looks);
      clearTimeout(deadline);
      over.abort();
    }
  }
}

/** Says at each look whether a step has finished since an earlier one, of an engine that has work. */
function stepLook(engine: GenerationEngine): () => boolean {
  let busySince: number | undefined;
  return () => {
    const { runningRequests, stalledFor } = engine.status();
    const now = performance.now();
    // What an engine that had nothing to do last finished is no sign.
    if (runningRequests === 0) busySince = undefined;
    else busySince ??= now;
    return busySince !== undefined && stalledFor < (now - busySince) / 1000;
  };
}

/**
 * @returns False when the request found no place, or `/abort_request` ended it.
 * @throws what the engine throws, which is no place in a queue.
 */
async function generatesToken(engine: GenerationEngine, signal: AbortSignal): Promise<boolean> {
  const request = {
    // Token 0 is in every vocabulary, and one token fits into every context.
    tokens: [0],
    sampling: { maxNewTokens: 1, temperature: 0, ignoreEos: true },
    requestId: `${HEALTH_CHECK}${Date.now()}`,
    signal,
  };
  try {
    for await (const { tokens } of engine.generate(request)) if (tokens.length > 0) return true;
  } catch (error) {
    if (!(error instanceof CapacityError || signal.aborted)) throw error;
  }
  return false;
}
