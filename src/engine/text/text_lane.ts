/**
 * A thread that reads texts, one after another, and is replaced when one of them takes too much.
 *
 * @module
 */
import { type EngineError, InvalidRequestError, WorkerError } from "../../errors.ts";
import { errorOf } from "../remote/error_data.ts";
import { abortError } from "../schedule/chunk_stream.ts";
import type { TextAnswer, TextQuestion } from "./text_messages.ts";
import { TextQueue, type WaitingJob } from "./text_queue.ts";

/** A thread in which `serveText` runs. */
export interface TextThread {
  /** Sends what `serveText` takes. */
  send(question: TextQuestion): void;
  /** Says whether an answer is awaited, which a process then has to stay for. */
  setAwaited?(isAwaited: boolean): void;
  terminate(): void;
}

export interface TextThreadEvents {
  readonly onAnswer: (answer: TextAnswer) => void;
  /**
   * The thread has ended.
   *
   * @param isFull Whether it needed more memory than it may have.
   */
  readonly onEnd: (problem: string, isFull: boolean) => void;
}

export type StartTextThread = (events: TextThreadEvents) => TextThread;

export interface LaneLimits {
  /** Seconds that a job may take. */
  readonly seconds: number;
  /** Characters that may wait. */
  readonly waiting: number;
}

export interface LaneOptions extends LaneLimits {
  readonly start: StartTextThread;
  readonly load: Extract<TextQuestion, { type: "load" }>;
  /** Seconds that a thread may take to load. */
  readonly loadSeconds: number;
}

export type Loaded = Extract<TextAnswer, { type: "loaded" }>;

/**
 * Milliseconds in which an answer may still come when the time is over: where this thread was held up,
 * it is here already and was not looked at yet.
 */
const GRACE_MS = 100;

/** A thread from its start to its end. */
interface Run {
  readonly thread: TextThread;
  /** What it works at; undefined while it has nothing to do. */
  asked: Loading | WaitingJob | undefined;
  timer: ReturnType<typeof setTimeout> | undefined;
}

interface Loading {
  readonly resolve: (answer: Loaded) => void;
  readonly reject: (error: unknown) => void;
}

const isJob = (asked: Loading | WaitingJob): asked is WaitingJob => "question" in asked;

export class TextLane {
  readonly #options: LaneOptions;
  readonly #queue: TextQueue;
  #run: Run | undefined;
  /** Loads for jobs that have failed one after the other. */
  #failedLoads = 0;
  /** Why nothing can be asked any more. */
  #failure: Error | undefined;

  constructor(options: LaneOptions) {
    this.#options = options;
    this.#queue = new TextQueue(options.waiting);
  }

  /**
   * Starts the thread.
   *
   * @throws {EngineError} as a rejection, when it cannot load.
   */
  load(): Promise<Loaded> {
    return new Promise((resolve, reject) => this.#launch({ resolve, reject }));
  }

  /** @throws {CapacityError} when too much waits already. */
  add(job: WaitingJob): void {
    if (this.#failure !== undefined) throw this.#failure;
    this.#queue.add(job);
    this.#goOn();
  }

  /** The caller of a job waits for it no more; what is being worked at is worked at to its end. */
  leave(job: WaitingJob): void {
    this.#queue.remove(job);
    job.reject(abortError());
  }

  close(): void {
    this.#failure ??= new WorkerError("Cannot read a text: the text service is closed");
    this.#end(this.#failure);
    this.#failAll(this.#failure);
  }

  /** Gives the thread its next job; starts one where there is none. */
  #goOn(): void {
    const run = this.#run;
    if (run === undefined) {
      if (this.#queue.length > 0) this.#relaunch();
      return;
    }
    if (run.asked !== undefined) return;
    const job = this.#queue.take();
    if (job === undefined) return;
    try {
      run.thread.send(job.question);
    } catch (cause) {
      job.reject(cannotSend(cause));
      this.#goOn();
      return;
    }
    this.#await(run, job, this.#options.seconds);
  }

  /**
   * A load that fails is the matter of the job that it was for: another thread loads for the next.
   * Where that fails too, no job waits for one that can.
   */
  #relaunch(): void {
    const resolve = () => {
      this.#failedLoads = 0;
    };
    const reject = (error: unknown) => {
      this.#failedLoads += 1;
      if (this.#failedLoads > 1) this.#failAll(error);
      else this.#queue.take()?.reject(error);
      // Behind the end of the thread that has failed.
      queueMicrotask(() => this.#goOn());
    };
    this.#launch({ resolve, reject });
  }

  #launch(loading: Loading): void {
    const { start, load, loadSeconds } = this.#options;
    try {
      const run: Run = {
        thread: start({
          onAnswer: (answer) => this.#take(run, answer),
          onEnd: (problem, isFull) => this.#lose(run, problem, isFull),
        }),
        asked: undefined,
        timer: undefined,
      };
      this.#run = run;
      run.thread.send(load);
      this.#await(run, loading, loadSeconds);
    } catch (cause) {
      this.#end();
      const problem = (cause as Error).message;
      loading.reject(new WorkerError(`Cannot read a text: ${problem}`, { cause }));
    }
  }

  #await(run: Run, asked: Loading | WaitingJob, seconds: number): void {
    run.asked = asked;
    run.thread.setAwaited?.(true);
    const check = () => {
      run.timer = setTimeout(() => this.#giveUp(run, seconds), GRACE_MS);
    };
    run.timer = setTimeout(check, 1000 * seconds);
  }

  #take(run: Run, answer: TextAnswer): void {
    const asked = this.#settle(run);
    if (asked === undefined) return;
    if (answer.type === "failed") {
      asked.reject(errorOf(answer.error));
      // A thread that has not loaded can do nothing.
      if (!isJob(asked)) this.#end();
    } else if (isJob(asked)) asked.resolve(answer);
    else asked.resolve(answer as Loaded);
    if (this.#run === run) this.#goOn();
  }

  #giveUp(run: Run, seconds: number): void {
    this.#replace(run, `it took longer than ${seconds} s`, InvalidRequestError);
  }

  #lose(run: Run, problem: string, isFull: boolean): void {
    if (isFull) this.#replace(run, "it took more memory than it may have", InvalidRequestError);
    else this.#replace(run, problem, WorkerError);
  }

  /** Ends the thread and what it works at. Where that was a job, another thread is to do the next. */
  #replace(
    run: Run,
    problem: string,
    Problem: typeof InvalidRequestError | typeof WorkerError,
  ): void {
    if (this.#run !== run) return;
    const asked = this.#settle(run);
    this.#end();
    if (asked !== undefined && !isJob(asked)) {
      const what = "the tokenizer and the chat template";
      asked.reject(new WorkerError(`Cannot load ${what}: ${problem}`));
      return;
    }
    asked?.reject(new Problem(`Cannot ${VERBS[asked.kind]}: ${problem}`));
    // At once, so that the next job need not wait for it.
    this.#relaunch();
  }

  /** What the thread was working at, and now is not any more. */
  #settle(run: Run): Loading | WaitingJob | undefined {
    const { asked } = run;
    clearTimeout(run.timer);
    run.asked = undefined;
    run.thread.setAwaited?.(false);
    return asked;
  }

  /** Ends the thread, and with `error` what it works at. */
  #end(error?: Error): void {
    const run = this.#run;
    this.#run = undefined;
    if (run === undefined) return;
    const asked = this.#settle(run);
    if (error !== undefined) asked?.reject(error);
    run.thread.terminate();
  }

  #failAll(error: unknown): void {
    for (let job = this.#queue.take(); job !== undefined; job = this.#queue.take()) {
      job.reject(error);
    }
  }
}

const VERBS: Readonly<Record<WaitingJob["kind"], string>> = {
  decode: "turn the tokens into text",
  messages: "render and tokenize the messages",
  text: "tokenize the text",
};

function cannotSend(cause: unknown): EngineError {
  const message = `Cannot send the prompt to its thread: ${(cause as Error).message}`;
  return new InvalidRequestError(message, undefined, { cause });
}
