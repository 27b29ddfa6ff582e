/**
 * Where the texts of requests become tokens, and lists of tokens texts.
 *
 * A port, so that the work can be done in another thread: how long it takes is up to what a client
 * sends and to the patterns and templates of a checkpoint. The text of tokens that are generated one
 * by one is not its work: that is a look-up.
 *
 * @module
 */
import type { WeightSource } from "../../checkpoint/source.ts";
import type { TextModel, TextOptions } from "../load/text_model.ts";
import type { TextJob, TextResult } from "./text_jobs.ts";

/** A job that is under way. */
export interface TextWork<Result> {
  /** At once where the work is done in this thread. Rejects once `leave` was called. */
  readonly result: Result | Promise<Result>;
  /** The caller waits for it no more. */
  readonly leave: () => void;
}

export interface RunOptions {
  /** Comes before jobs that are not: a sequence that runs waits for it. Default false. */
  readonly isUrgent?: boolean;
  /** Whose text it is: clients have their turns. Default: that is not known. */
  readonly client?: string | undefined;
}

export interface TextService {
  /** Names that the model's chat templates use as variables. */
  readonly templateVariables: ReadonlySet<string>;
  /**
   * Begins a job.
   *
   * @throws {InvalidRequestError} when it cannot be done, or takes too long or too much memory; so does
   * `result` reject.
   * @throws {CapacityError} when too much text waits.
   */
  run<Job extends TextJob>(job: Job, options?: RunOptions): TextWork<TextResult<Job>>;
  /** Ends what is under way; nothing may be asked any more. */
  close(): void;
}

/** What a service is made from. */
export interface TextServiceSetting {
  /** The model's, whose tokenizer is not prepared yet. */
  readonly model: TextModel;
  /** Where the model is read from, as long as the service is being made. */
  readonly source: WeightSource;
  /** What the model was read with. */
  readonly options: TextOptions;
}

/**
 * @throws {CheckpointError} when the files of the tokenizer or the templates are malformed; so does the
 * promise reject.
 */
export type CreateTextService = (setting: TextServiceSetting) => TextService | Promise<TextService>;

/** What a job comes to; a caller that leaves meanwhile gets an AbortError. */
export async function finished<Result>(
  { result, leave }: TextWork<Result>,
  signal: AbortSignal | undefined,
): Promise<Result> {
  if (signal?.aborted) leave();
  signal?.addEventListener("abort", leave);
  try {
    return await result;
  } finally {
    signal?.removeEventListener("abort", leave);
  }
}
