/**
 * Log lines about the engine's steps: one for every step with prompts, one for every so many steps
 * that decode, in the wording that users of such servers search for.
 *
 * @module
 */
import type { StepReport } from "../../engine/step/step_report.ts";
import type { EngineStatus } from "../../generation.ts";
import type { Logger } from "./logger.ts";

export class StepLog {
  readonly #log: Logger;
  readonly #interval: number;
  /** Since the last line about decoding, or since there is work. */
  #steps = 0;
  #tokens = 0;
  #verifySteps = 0;
  #acceptedDrafts = 0;
  #since = performance.now();
  /** Whether nothing was left to do after the newest step. */
  #isIdle = true;
  #retractions = 0;

  /** @param interval Decode steps from one line to the next. */
  constructor(log: Logger, interval: number) {
    this.#log = log;
    this.#interval = interval;
  }

  /** @param status Of the engine after the step. */
  step(report: StepReport, status: EngineStatus): void {
    this.#reportRetractions(status);
    if (this.#isIdle) this.#restart();
    else this.#tokens += report.sampledTokens;
    this.#isIdle = status.runningRequests + status.queuedRequests === 0;
    if (report.prompts > 0) this.#reportPrompts(report, status);
    if (report.decodedTokens === 0) return;
    this.#steps += 1;
    this.#verifySteps += report.speculation.verifySteps;
    this.#acceptedDrafts += report.speculation.acceptedDrafts;
    if (this.#steps >= this.#interval) this.#reportDecoding(status);
  }

  #reportPrompts({ prompts, promptTokens, cachedTokens }: StepReport, status: EngineStatus): void {
    const { runningRequests, queuedRequests } = status;
    const usage = tokenUsage(status);
    this.#log.event(
      "info",
      `Prefill batch. #new-seq: ${prompts}, #new-token: ${promptTokens}, ` +
        `#cached-token: ${cachedTokens}, token usage: ${usage}, ` +
        `#running-req: ${runningRequests}, #queue-req: ${queuedRequests}`,
      {
        event: "prefill_batch",
        sequences: prompts,
        new_tokens: promptTokens,
        cached_tokens: cachedTokens,
        token_usage: usage,
        running_requests: runningRequests,
        queued_requests: queuedRequests,
      },
    );
  }

  #reportDecoding(status: EngineStatus): void {
    const { runningRequests, queuedRequests, usedTokens } = status;
    const now = performance.now();
    const throughput = rounded((1000 * this.#tokens) / Math.max(now - this.#since, 1));
    const usage = tokenUsage(status);
    // With the token that every step gives: 1 where no draft was right.
    const length = rounded(1 + this.#acceptedDrafts / Math.max(this.#verifySteps, 1));
    const accepted = status.speculation === undefined ? "" : `accept len: ${length}, `;
    this.#restart();
    this.#log.event(
      "info",
      `Decode batch. #running-req: ${runningRequests}, #token: ${usedTokens}, ` +
        `token usage: ${usage}, ${accepted}gen throughput (token/s): ${throughput}, ` +
        `#queue-req: ${queuedRequests}`,
      {
        event: "decode_batch",
        running_requests: runningRequests,
        used_tokens: usedTokens,
        token_usage: usage,
        ...(status.speculation && { accept_length: length }),
        throughput,
        queued_requests: queuedRequests,
      },
    );
  }

  #restart(): void {
    this.#steps = 0;
    this.#tokens = 0;
    this.#verifySteps = 0;
    this.#acceptedDrafts = 0;
    this.#since = performance.now();
  }

  #reportRetractions({ retractions }: EngineStatus): void {
    const retracted = retractions - this.#retractions;
    if (retracted === 0) return;
    this.#retractions = retractions;
    this.#log.event(
      "info",
      `KV cache pool is full. Retract requests. #retracted_reqs: ${retracted}`,
      { event: "retract", retracted_requests: retracted },
    );
  }
}

/** Share of the cache's slots in use. */
function tokenUsage({ usedTokens, totalTokens }: EngineStatus): number {
  return rounded(usedTokens / totalTokens);
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
