/**
 * Runs the steps of an engine on several ranks of this process. The engine schedules for all of them:
 * each rank gets the same batch and the same rows, as plain data, and draws the same tokens.
 *
 * Log-probabilities are gathered and delivered by the first rank alone. A logit processor, which is
 * the caller's function, is called once for a row, whichever rank comes to it first.
 *
 * @module
 */
import { GroupError, KernelError } from "../../errors.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { Batch } from "../../layers/batch.ts";
import type { LogitRows, SampledRow, ScoredRow } from "../sample/sampled_row.ts";
import type { FilledSteps } from "../step/filled_steps.ts";
import type { ModelRunner } from "../step/model_runner.ts";
import type { StepOptions, StepRunner, SubmittedStep } from "../step/step_runner.ts";
import { LocalTimes } from "./local_times.ts";

export class RankRunner implements StepRunner {
  readonly rankTimes: LocalTimes;
  readonly #ranks: readonly ModelRunner[];

  /** @param ranks In their order. */
  constructor(ranks: readonly ModelRunner[]) {
    this.#ranks = ranks;
    this.rankTimes = new LocalTimes(ranks);
  }

  get recorder(): Recorder {
    return this.#ranks[0]!.recorder;
  }

  get overlappedSteps(): number | undefined {
    return this.#ranks[0]!.overlappedSteps;
  }

  get maxScoredRows(): number {
    return this.#ranks[0]!.maxScoredRows;
  }

  get filledSteps(): FilledSteps {
    return this.#ranks[0]!.filledSteps;
  }

  async moveExperts(layer: number, after: readonly number[]): Promise<void> {
    await allOrCause(this.#ranks.map((runner) => runner.moveExperts(layer, after)));
  }

  /** Resolves when the step is on the queues of all ranks. */
  async submit(
    batch: Batch,
    sampling: readonly SampledRow[],
    options: StepOptions = {},
  ): Promise<SubmittedStep> {
    const rows = await this.#makeRoom({ sampled: sampling, scored: options.scored ?? [] });
    const shared = { ...rows, sampled: rows.sampled.map(processedOnce) };
    this.rankTimes.beginStep();
    const steps = await allOrCause(
      this.#ranks.map((runner, rank) => {
        const { sampled, scored } = rank === 0 ? shared : followed(shared);
        // All ranks choose the same experts.
        const onExperts = rank === 0 ? options.onExperts : undefined;
        return runner.submit(batch, sampled, { ...options, scored, onExperts });
      }),
    );
    const tokens = allOrCause(steps.map((step) => step.tokens)).then(agreed);
    const drafts = steps[0]!.drafts;
    for (const step of steps) step.drafts.catch(() => {});
    return { tokens, drafts };
  }

  /** Takes part in a step of other attention groups, which no profile of this one shows. */
  async idle(): Promise<void> {
    // Meanwhile its timer may be taken away for good, or another be given for its next step.
    for (const { recorder } of this.#ranks) recorder.isUntimed = true;
    try {
      await allOrCause(this.#ranks.map((runner) => runner.idle()));
    } finally {
      for (const { recorder } of this.#ranks) recorder.isUntimed = false;
    }
  }

  /** What one rank has no memory for, no rank computes. */
  async #makeRoom(rows: LogitRows): Promise<LogitRows> {
    let fitting = rows;
    for (const runner of this.#ranks) fitting = await runner.makeRoom(fitting);
    return fitting;
  }
}

/** Rows of a rank whose results go nowhere: it needs the tokens only. */
function followed({ sampled, scored }: LogitRows): LogitRows {
  const quiet = <T extends SampledRow | ScoredRow>(row: T): T => ({ ...row, logprobs: undefined });
  return { sampled: sampled.map(quiet), scored: scored.map(quiet) };
}

/** A row whose processor sees the logits of one rank; the others, which have the same, get its result. */
function processedOnce(row: SampledRow): SampledRow {
  const { processor } = row;
  if (processor === undefined) return row;
  let result: Float32Array | undefined;
  return {
    ...row,
    processor: (logits) => {
      if (result !== undefined) return logits.set(result);
      processor(logits);
      result = logits.slice();
    },
  };
}

/** @throws {KernelError} when ranks that compute the same have drawn different tokens. */
function agreed(tokens: readonly Uint32Array[]): Uint32Array {
  const [first, ...others] = tokens;
  for (const other of others) {
    const at = other.findIndex((token, i) => token !== first![i]);
    if (at === -1) continue;
    throw new KernelError("ranks", `they drew ${first![at]} and ${other[at]} from row ${at}`);
  }
  return first!;
}

/**
 * Waits for all of them.
 *
 * @throws What made one fail first: a rank that was only left alone by others says less.
 */
export async function allOrCause<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  const results = await Promise.allSettled(promises);
  const reasons = results.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
  if (reasons.length > 0) {
    throw reasons.find((reason) => !(reason instanceof GroupError)) ?? reasons[0];
  }
  return results.map((one) => (one as PromiseFulfilledResult<T>).value);
}
