/**
 * The rank processes of one node.
 *
 * @module
 */
import { type ChildProcess, spawn } from "node:child_process";
import type { Duplex } from "node:stream";
import type { Environment } from "../hub/hub_settings.ts";
import { EXIT, LaunchError } from "./launch_error.ts";
import { deferred } from "./nodes.ts";
import { type LauncherMessage, RANK_VARIABLES, type RankMessage } from "./rank_messages.ts";

/** Milliseconds that ranks of a group that has ended have to end by themselves. */
const GRACE = 300;
/** The descriptor over which a rank's MPI talks to its launcher: 0 to 2 are taken, 3 is Node's channel. */
const PMI_FD = 4;

export interface LocalRanksOptions {
  /** Number of the first rank of this node. */
  readonly first: number;
  readonly count: number;
  /** Ranks of all nodes. */
  readonly size: number;
  /** Node's own options, the file of a rank's program, and its arguments. */
  readonly command: readonly string[];
  readonly env: Environment;
  /** CPUs of each. Default: any. */
  readonly cpus?: readonly (readonly number[])[] | undefined;
  /** Milliseconds between signs of life. */
  readonly beat: number;
  /** Serves a rank's MPI while it starts. Undefined where the launcher around this process does. */
  readonly serve: ((stream: Duplex, rank: number) => void) | undefined;
  /** What a rank's program says. */
  readonly onMessage?: ((message: unknown, rank: number) => void) | undefined;
  /** A rank is lost. */
  readonly onFailure: (error: LaunchError) => void;
}

interface Rank {
  readonly rank: number;
  readonly process: ChildProcess;
  readonly ended: Promise<void>;
  started: boolean;
  done: boolean;
}

export class LocalRanks {
  readonly #options: LocalRanksOptions;
  readonly #ranks: readonly Rank[];
  readonly #started = deferred<void>();
  readonly #done = deferred<void>();
  readonly #timer: NodeJS.Timeout;
  #ending = false;

  /** Starts the processes. */
  constructor(options: LocalRanksOptions) {
    this.#options = options;
    const { first, count, beat } = options;
    this.#ranks = Array.from({ length: count }, (_, i) => this.#start(first + i));
    this.#timer = setInterval(() => this.#tell({ type: "beat" }), beat);
  }

  /** Resolves once MPI has started in all of them. */
  get started(): Promise<void> {
    return this.#started.promise;
  }

  /** Resolves once all have done their work. */
  get done(): Promise<void> {
    return this.#done.promise;
  }

  /** Those in which MPI has not started. */
  get late(): readonly number[] {
    return this.#ranks.filter(({ started }) => !started).map(({ rank }) => rank);
  }

  /** Ends all processes, whose work is done. Resolves once they are gone. */
  release(): Promise<void> {
    return this.#end({ type: "end" });
  }

  /** Ends all processes, by themselves or else by force. Resolves once they are gone. */
  stop(reason: string): Promise<void> {
    return this.#end({ type: "lost", reason });
  }

  /** Says something to the program of a rank of this node. */
  say(message: unknown, rank: number): void {
    const { process } = this.#ranks.find((one) => one.rank === rank)!;
    if (process.connected)
      process.send({ type: "said", message } satisfies LauncherMessage, () => {});
  }

  async #end(message: LauncherMessage): Promise<void> {
    this.#ending = true;
    clearInterval(this.#timer);
    this.#tell(message);
    const timer = setTimeout(() => {
      for (const { process } of this.#ranks) process.kill("SIGKILL");
    }, GRACE);
    await Promise.all(this.#ranks.map(({ ended }) => ended));
    clearTimeout(timer);
  }

  #start(rank: number): Rank {
    const { command, env, size, serve, cpus, first } = this.#options;
    const [file, ...args] = command;
    // The launcher around this process has given it the descriptor that is its rank's.
    const outer = serve === undefined ? env.PMI_FD : undefined;
    const ours = { PMI_FD: `${PMI_FD}`, PMI_RANK: `${rank}`, PMI_SIZE: `${size}` };
    const own = {
      ...(serve === undefined ? outer && { PMI_FD: `${PMI_FD}` } : ours),
      [RANK_VARIABLES.cpus]: cpus?.[rank - first]?.join(),
      [RANK_VARIABLES.signsOff]: outer && "1",
    };
    const pmi = serve === undefined ? (outer ? Number(outer) : "ignore") : "pipe";
    const child = spawn(file!, args, {
      env: { ...env, ...own },
      stdio: ["ignore", "inherit", "inherit", "ipc", pmi],
      // Typed arrays stay what they are.
      serialization: "advanced",
    });
    const gone = deferred<void>();
    const one: Rank = { rank, process: child, ended: gone.promise, started: false, done: false };
    serve?.(child.stdio[PMI_FD] as Duplex, rank);
    child.on("message", (message) => this.#hear(one, message as RankMessage));
    child.on("error", (error) => {
      gone.resolve();
      this.#lose(rank, `its process has failed: ${error.message}`);
    });
    child.on("exit", (code, signal) => {
      gone.resolve();
      this.#lose(
        rank,
        signal === null ? `it has ended with code ${code}` : `${signal} has ended it`,
      );
    });
    return one;
  }

  #hear(one: Rank, message: RankMessage): void {
    if (message.type === "started") {
      one.started = true;
      if (this.late.length === 0) this.#started.resolve();
    } else if (message.type === "done") {
      one.done = true;
      if (this.#ranks.every(({ done }) => done)) this.#done.resolve();
    } else if (message.type === "said") {
      if (!this.#ending) this.#options.onMessage?.(message.message, one.rank);
    } else {
      this.#fail(message.reason);
    }
  }

  #lose(rank: number, how: string): void {
    this.#fail(`Cannot go on without rank ${rank}: ${how}`);
  }

  #fail(message: string): void {
    if (!this.#ending) this.#options.onFailure(new LaunchError(message, EXIT.lost));
  }

  #tell(message: LauncherMessage): void {
    for (const { process } of this.#ranks) {
      // A rank that is gone while this is said is told of by its exit.
      if (process.connected) process.send(message, () => {});
    }
  }
}
