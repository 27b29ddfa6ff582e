/**
 * Texts read in other threads, so that none holds up the thread that steps and streams.
 *
 * Short texts have a thread of their own, so that they never wait for a long one.
 *
 * @module
 */

import type { TextOptions } from "../load/text_model.ts";
import { abortError } from "../schedule/chunk_stream.ts";
import { packed } from "./packed_job.ts";
import type { TextJob, TextResult } from "./text_jobs.ts";
import { type LaneLimits, type Loaded, type StartTextThread, TextLane } from "./text_lane.ts";
import type { RunQuestion, TextAnswer, TextFiles, TextQuestion } from "./text_messages.ts";
import type { WaitingJob } from "./text_queue.ts";
import type { RunOptions, TextService, TextWork } from "./text_service.ts";
import { hasManyValues, textSize } from "./text_size.ts";

export interface TextLimits {
  /** Characters of a job from which on it is a long one. */
  readonly longText: number;
  readonly short: LaneLimits;
  readonly long: LaneLimits;
  /** Seconds that a thread may take to load the tokenizer and the templates. */
  readonly loadSeconds: number;
}

export const TEXT_LIMITS: TextLimits = {
  longText: 2 ** 15,
  short: { seconds: 2, waiting: 2 ** 24 },
  long: { seconds: 20, waiting: 2 ** 25 },
  loadSeconds: 60,
};

export interface RemoteTextSetting {
  readonly start: StartTextThread;
  readonly files: TextFiles;
  readonly options: TextOptions;
  /** Default `TEXT_LIMITS`. */
  readonly limits?: TextLimits;
}

export class RemoteTextService implements TextService {
  readonly templateVariables: ReadonlySet<string>;
  readonly #short: TextLane;
  readonly #long: TextLane;
  readonly #longText: number;

  private constructor(
    lanes: { readonly short: TextLane; readonly long: TextLane },
    { templateVariables }: Loaded,
    longText: number,
  ) {
    this.#short = lanes.short;
    this.#long = lanes.long;
    this.#longText = longText;
    this.templateVariables = new Set(templateVariables);
  }

  /**
   * Starts the thread of short texts; that of long ones starts with the first.
   *
   * @throws {CheckpointError} when the files of the tokenizer or the templates are malformed.
   * @throws {WorkerError} when they take too long to load, or too much memory.
   */
  static async open(setting: RemoteTextSetting): Promise<RemoteTextService> {
    const { start, files, options, limits = TEXT_LIMITS } = setting;
    const { loadSeconds } = limits;
    const load: TextQuestion = { type: "load", files, options };
    const lanes = {
      short: new TextLane({ ...limits.short, start, load, loadSeconds }),
      long: new TextLane({ ...limits.long, start, load, loadSeconds }),
    };
    return new RemoteTextService(lanes, await lanes.short.load(), limits.longText);
  }

  run<Job extends TextJob>(
    job: Job,
    { isUrgent = false, client }: RunOptions = {},
  ): TextWork<TextResult<Job>> {
    const size = textSize(job);
    const lane = size < this.#longText ? this.#short : this.#long;
    const kind = kindOf(job);
    let hasLeft = false;
    let leave = () => {
      hasLeft = true;
    };
    const ask = (question: RunQuestion) =>
      new Promise<TextAnswer>((resolve, reject) => {
        if (hasLeft) throw abortError();
        const waiting = { question, kind, size, isUrgent, client, resolve, reject };
        leave = () => lane.leave(waiting);
        lane.add(waiting);
      });
    const asking = hasManyValues(job)
      ? packed(job, () => !hasLeft).then((json) => ask({ type: "run packed", json }))
      : ask({ type: "run", job });
    const result = asking.then((answer) => resultOf(answer) as TextResult<Job>);
    return { result, leave: () => leave() };
  }

  close(): void {
    this.#short.close();
    this.#long.close();
  }
}

function kindOf(job: TextJob): WaitingJob["kind"] {
  if (job.type === "decode") return "decode";
  return job.type === "prompt" && job.request.messages !== undefined ? "messages" : "text";
}

function resultOf(answer: TextAnswer): string | readonly number[] | undefined {
  if (answer.type === "text") return answer.text;
  return answer.type === "tokens" ? numbers(answer.tokens) : undefined;
}

/** A list of its numbers, several times as fast as the iterator that `Array.from` takes. */
function numbers(tokens: Uint32Array): readonly number[] {
  const list = new Array<number>(tokens.length);
  for (let i = 0; i < list.length; i++) list[i] = tokens[i]!;
  return list;
}
