/**
 * A rank that is a thread: how it gets into its group, and how it leaves it.
 *
 * @module
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type MessagePort, threadId } from "node:worker_threads";
import { GroupError } from "../../errors.ts";
import { withoutRank } from "../../parallel/exchange.ts";
import { leaveDevices } from "../device/device.ts";
import { type LauncherTalk, meetOnce, type RankGroup } from "../mpi/join_group.ts";
import { type MpiCommunicator, mpiCommunicator } from "../mpi/mpi_communicator.ts";
import { deferred } from "../mpi/nodes.ts";
import type { LauncherMessage, RankMessage } from "../mpi/rank_messages.ts";
import { type GroupMemory, WORD } from "./group_memory.ts";
import { ThreadLibrary } from "./thread_library.ts";

/** Milliseconds after which an exchange is given up, while a model is not being loaded. */
const EXCHANGE_DEADLINE = 30_000;
/** Milliseconds between two looks whether another thread opens a device. */
const LOOK = 5;

/** What a rank's thread is started with. */
export interface ThreadPlace {
  readonly memory: GroupMemory;
  /** The number of the thread of this process that opens a device, or 0. */
  readonly opening: SharedArrayBuffer;
  readonly rank: number;
  /** Milliseconds that ranks wait for each other while they start. */
  readonly timeout: number;
}

/** The group of this thread. Both of its ends end the thread. */
export interface ThreadGroup extends RankGroup {
  /** Does what changes the environment of the process, which all threads have, when no other one does. */
  inTurn<T>(work: () => Promise<T>): Promise<T>;
}

/** @param port To the thread that has started this one. */
export function joinThreads(place: ThreadPlace, port: MessagePort): ThreadGroup {
  const { memory, rank, timeout } = place;
  const words = new Int32Array(memory.words);
  const opening = new Int32Array(place.opening);
  const communicator = mpiCommunicator(
    new ThreadLibrary(memory, rank),
    { rank, size: memory.size },
    EXCHANGE_DEADLINE,
  );
  const launcher = new ThreadLink(port, communicator);
  let leaving: Promise<never> | undefined;
  const leave = async (): Promise<never> => {
    await leaveDevices();
    Atomics.add(words, WORD.quiet, 1);
    Atomics.notify(words, WORD.quiet);
    // Of this thread alone.
    return process.exit(0);
  };
  launcher.send({ type: "started" });
  return {
    communicator,
    launcher,
    startTimeout: timeout,
    async finish() {
      await meetOnce(communicator, "the end");
      launcher.send({ type: "done" });
      await Promise.race([launcher.ended, communicator.failed]);
      leaving ??= leave();
      return leaving;
    },
    async fail(error) {
      const reason = error instanceof Error ? error.message : String(error);
      const known = communicator.failure?.message;
      communicator.abort(reason);
      if (leaving !== undefined) return leaving;
      launcher.send({ type: "failed", reason: known ?? withoutRank(rank, reason) });
      leaving = leave();
      return leaving;
    },
    async inTurn(work) {
      while (Atomics.compareExchange(opening, 0, 0, threadId) !== 0) await sleep(LOOK);
      try {
        return await work();
      } finally {
        Atomics.store(opening, 0, 0);
      }
    },
  };
}

/** What a rank has of the thread that has started it. */
class ThreadLink implements LauncherTalk {
  readonly #port: MessagePort;
  readonly #communicator: MpiCommunicator;
  readonly #end = deferred<void>();
  #onMessage: LauncherTalk["onMessage"];
  #unheard: unknown[] = [];

  constructor(port: MessagePort, communicator: MpiCommunicator) {
    this.#port = port;
    this.#communicator = communicator;
    port.on("message", (message: LauncherMessage) => this.#hear(message));
  }

  /** Resolves once all ranks have done their work. */
  get ended(): Promise<void> {
    return this.#end.promise;
  }

  get onMessage(): LauncherTalk["onMessage"] {
    return this.#onMessage;
  }

  set onMessage(take) {
    this.#onMessage = take;
    if (take !== undefined) for (const message of this.#unheard.splice(0)) take(message);
  }

  say(message: unknown): void {
    this.send({ type: "said", message });
  }

  send(message: RankMessage): void {
    this.#port.postMessage(message);
  }

  #hear(message: LauncherMessage): void {
    if (message.type === "end") this.#end.resolve();
    if (message.type === "lost") this.#communicator.fail(new GroupError(message.reason));
    if (message.type !== "said") return;
    if (this.#onMessage === undefined) this.#unheard.push(message.message);
    else this.#onMessage(message.message);
  }
}
