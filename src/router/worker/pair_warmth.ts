/**
 * Which pairs of a prefill and a decode server have answered together: each is tried by a small
 * request as soon as both are healthy, so that no client waits for their first meeting.
 *
 * @module
 */
import { sleep } from "../../http/retries.ts";
import { newRoom, withBootstrap } from "../forward/bootstrap_body.ts";
import type { RouterObserver } from "../observer.ts";
import { keyHeaders } from "./health_checks.ts";
import { SignalGroup } from "./signal_group.ts";
import { type Asked, ask, type Upstream } from "./upstream.ts";
import type { Worker } from "./worker.ts";
import type { Workers } from "./workers.ts";

/** Milliseconds of a try, and before a pair that has failed is tried again. */
const TRY_TIME = 120_000;
const PAUSE = 2000;

/** Token 0 is in every vocabulary; a prompt of two has a page to move. */
const REQUEST = {
  input_ids: [0, 0],
  sampling_params: { max_new_tokens: 1, temperature: 0, ignore_eos: true },
};

interface Surroundings {
  readonly workers: Workers;
  readonly upstream: Upstream;
  readonly observer: RouterObserver;
  readonly apiKey: string | undefined;
}

export class PairWarmth {
  readonly #around: Surroundings;
  readonly #running = new SignalGroup();
  /** Prefill servers -> decode servers that they are warm with, and those that are being tried. */
  readonly #warm = new WeakMap<Worker, WeakSet<Worker>>();
  readonly #trying = new WeakMap<Worker, WeakSet<Worker>>();

  constructor(around: Surroundings) {
    this.#around = around;
  }

  /** Whether one pair that is available has answered. */
  get isReady(): boolean {
    const { workers } = this.#around;
    const decodes = workers.availableOf("decode");
    return workers
      .availableOf("prefill")
      .some((prefill) => decodes.some((decode) => this.#warm.get(prefill)?.has(decode)));
  }

  /** A worker has become healthy: its pairs are tried. */
  meet(): void {
    const { workers } = this.#around;
    for (const prefill of workers.availableOf("prefill")) {
      for (const decode of workers.availableOf("decode")) void this.#try(prefill, decode);
    }
  }

  stop(): void {
    this.#running.abort();
  }

  async #try(prefill: Worker, decode: Worker): Promise<void> {
    const trying = this.#trying.get(prefill) ?? new WeakSet();
    this.#trying.set(prefill, trying);
    if (trying.has(decode) || this.#warm.get(prefill)?.has(decode)) return;
    trying.add(decode);
    const { observer } = this.#around;
    const tell = (level: "info" | "warning", state: string) => {
      const text = `Prefill server ${prefill.url} and decode server ${decode.url} ${state}`;
      observer.event({ level, text, fields: { message: text } });
    };
    let isTold = false;
    try {
      while (this.#areThere(prefill, decode)) {
        const problem = await this.#ask(prefill, decode);
        if (this.#running.isAborted) return;
        if (problem === undefined) {
          const warm = this.#warm.get(prefill) ?? new WeakSet();
          this.#warm.set(prefill, warm.add(decode));
          tell("info", "answer together");
          return;
        }
        if (!isTold) tell("warning", `do not answer together: ${problem}`);
        isTold = true;
        await this.#running.run((signal) => sleep(PAUSE, signal));
      }
    } catch {
      // The router stops.
    } finally {
      trying.delete(decode);
    }
  }

  #areThere(prefill: Worker, decode: Worker): boolean {
    const { workers } = this.#around;
    return [prefill, decode].every((worker) => workers.has(worker) && worker.isAvailable);
  }

  /** What is wrong; undefined where both have answered. */
  async #ask(prefill: Worker, decode: Worker): Promise<string | undefined> {
    const { upstream, apiKey } = this.#around;
    const plain = new TextEncoder().encode(JSON.stringify(REQUEST));
    const body = withBootstrap(plain, prefill, { room: newRoom() });
    const headers = { ...keyHeaders(apiKey), "content-type": "application/json" };
    const answers = await Promise.all(
      [prefill, decode].map((worker) =>
        this.#running
          .run((signal) => {
            const request = {
              url: `${worker.url}/generate`,
              method: "POST",
              headers,
              body,
              signal,
            };
            return ask(upstream, request, TRY_TIME);
          })
          .catch((error: Error): Asked => ({ status: 0, text: error.message })),
      ),
    );
    const failed = answers.find(({ status }) => status !== 200);
    return failed && `${failed.status}: ${failed.text.slice(0, 500)}`;
  }
}
