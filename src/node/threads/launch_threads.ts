/**
 * Starts ranks as threads of this process, and watches over them until all have done their work or one
 * is lost.
 *
 * A thread that has a device ends by itself and in no other way: Dawn aborts the process where a thread
 * ends while something of it is pending. So those of a group that has ended are told, and waited for.
 *
 * @module
 */
import { setTimeout as sleep } from "node:timers/promises";
import { SHARE_ENV, Worker } from "node:worker_threads";
import { EXIT, LaunchError } from "../mpi/launch_error.ts";
import { deferred } from "../mpi/nodes.ts";
import type { LauncherMessage, RankMessage } from "../mpi/rank_messages.ts";
import { type GroupMemory, groupMemory, WORD } from "./group_memory.ts";
import type { ThreadPlace } from "./join_threads.ts";

/** Milliseconds that the end of a group, and that of the process, wait for its ranks. */
const LAST_WAIT = 10_000;

/** Of all groups: what changes while a device is opened is the environment of the process. */
const OPENING = new SharedArrayBuffer(4);

interface ThreadsOptions {
  /** The program of a rank. */
  readonly program: URL;
  readonly argv?: readonly string[];
  readonly size: number;
  /** Milliseconds that ranks wait for each other while they start. */
  readonly timeout: number;
  /** Ends the group, for its reason where that is a `LaunchError`. */
  readonly signal?: AbortSignal | undefined;
  /** All ranks are there; `say` takes plain data to one of them. */
  readonly onStart?: ((say: (message: unknown, rank: number) => void) => void) | undefined;
  /** What the program of a rank says. */
  readonly onMessage?: ((message: unknown, rank: number) => void) | undefined;
}

/**
 * Resolves once the ranks have done their work.
 *
 * @throws {LaunchError} with the exit code that says why the group has ended or did not start. No thread
 * of it is left then, but for one that is frozen.
 */
export async function launchThreads(options: ThreadsOptions): Promise<void> {
  const { signal } = options;
  const group = new Threads(options);
  const stop = () => {
    const stopped = new LaunchError("Cannot go on with the group: it is stopped", EXIT.failed);
    group.fail(signal?.reason instanceof LaunchError ? signal.reason : stopped);
  };
  if (signal?.aborted) stop();
  signal?.addEventListener("abort", stop, { once: true });
  try {
    await group.run();
  } finally {
    signal?.removeEventListener("abort", stop);
  }
}

class Threads {
  readonly #options: ThreadsOptions;
  readonly #memory: GroupMemory;
  readonly #threads: readonly Worker[];
  readonly #gone: Promise<unknown>;
  readonly #failed = deferred<never>();
  readonly #started = deferred<void>();
  readonly #done = deferred<void>();
  #missing: { started: number; done: number };
  #isEnding = false;

  constructor(options: ThreadsOptions) {
    this.#options = options;
    const { size } = options;
    this.#memory = groupMemory(size);
    this.#missing = { started: size, done: size };
    this.#threads = Array.from({ length: size }, (_, rank) => this.#start(rank));
    this.#gone = Promise.all(
      this.#threads.map((thread) => new Promise((resolve) => thread.once("exit", resolve))),
    );
  }

  async run(): Promise<void> {
    process.on("exit", this.#waitForAll);
    try {
      await Promise.race([this.#work(), this.#failed.promise]);
      this.#end({ type: "end" });
    } catch (error) {
      this.#end({ type: "lost", reason: (error as Error).message });
      throw error;
    } finally {
      if (await this.#areGone()) process.off("exit", this.#waitForAll);
      else for (const thread of this.#threads) thread.unref();
    }
  }

  /** Whether no thread is left in good time; one that is frozen never ends. */
  async #areGone(): Promise<boolean> {
    const waiting = new AbortController();
    const { signal } = waiting;
    const late = sleep(LAST_WAIT, false, { signal }).catch(() => false);
    const areGone = await Promise.race([this.#gone.then(() => true), late]);
    waiting.abort();
    return areGone;
  }

  /** The first reason counts. */
  fail(error: LaunchError): void {
    this.#failed.reject(error);
  }

  async #work(): Promise<void> {
    await this.#started.promise;
    this.#options.onStart?.((message, rank) => this.#tell(rank, { type: "said", message }));
    await this.#done.promise;
  }

  #start(rank: number): Worker {
    const { program, argv = [], timeout } = this.#options;
    const place: ThreadPlace = { memory: this.#memory, opening: OPENING, rank, timeout };
    // Drivers read variables of the process, which only a shared environment sets.
    const thread = new Worker(program, {
      argv: [...argv],
      env: SHARE_ENV,
      execArgv: [],
      name: `rank ${rank}`,
      workerData: place,
    });
    thread.on("message", (message: RankMessage) => this.#hear(rank, message));
    thread.on("error", (error: Error) =>
      this.#lose(rank, `its thread has failed: ${error.message}`),
    );
    const { threadId } = thread;
    thread.on("exit", () => {
      // It may have ended while it opened one.
      Atomics.compareExchange(new Int32Array(OPENING), 0, threadId, 0);
      this.#lose(rank, "its thread has ended");
    });
    return thread;
  }

  #hear(rank: number, message: RankMessage): void {
    const missing = this.#missing;
    if (message.type === "started") {
      missing.started -= 1;
      if (missing.started === 0) this.#started.resolve();
    } else if (message.type === "done") {
      missing.done -= 1;
      if (missing.done === 0) this.#done.resolve();
    } else if (message.type === "said") {
      if (!this.#isEnding) this.#options.onMessage?.(message.message, rank);
    } else {
      this.fail(new LaunchError(message.reason, EXIT.lost));
    }
  }

  #lose(rank: number, how: string): void {
    this.fail(new LaunchError(`Cannot go on without rank ${rank}: ${how}`, EXIT.lost));
  }

  #end(message: LauncherMessage): void {
    this.#isEnding = true;
    for (const rank of this.#threads.keys()) this.#tell(rank, message);
  }

  #tell(rank: number, message: LauncherMessage): void {
    this.#threads[rank]!.postMessage(message);
  }

  /** Where the process ends first, for as long as it takes ranks to have nothing pending. */
  readonly #waitForAll = (): void => {
    this.#end({ type: "lost", reason: "Cannot go on with the group: its process ends" });
    const words = new Int32Array(this.#memory.words);
    const begun = performance.now();
    for (;;) {
      const quiet = Atomics.load(words, WORD.quiet);
      const left = begun + LAST_WAIT - performance.now();
      if (quiet === this.#threads.length || left <= 0) return;
      Atomics.wait(words, WORD.quiet, quiet, left);
    }
  };
}
