/**
 * A rank process: how it gets into its group, and how it leaves it.
 *
 * @module
 */
import { setTimeout as sleep } from "node:timers/promises";
import { GroupError } from "../../errors.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import { withoutRank } from "../../parallel/exchange.ts";
import { chooseNetworkDevices } from "../device/network_devices.ts";
import { tameUcx } from "../ucx/ucx_variables.ts";
import { buildShim } from "./build_shim.ts";
import { EXIT } from "./launch_error.ts";
import { type MpiCommunicator, mpiCommunicator } from "./mpi_communicator.ts";
import { loadMpiLibrary, type MpiLibrary } from "./mpi_library.ts";
import { deferred } from "./nodes.ts";
import { type LauncherMessage, MISSES, RANK_VARIABLES, type RankMessage } from "./rank_messages.ts";

/** Milliseconds between two looks whether MPI has started. */
const LOOK = 5;
/** Of ranks that another program has started, where nothing says how long they wait for each other. */
const TIMEOUT = 600_000;
/** Milliseconds after which an exchange is given up, while a model is not being loaded. */
const EXCHANGE_DEADLINE = 30_000;
/** Milliseconds that a rank without a launcher of ours gives its last messages. */
const LAST_MESSAGES = 200;

/** The program around this rank's launcher, as the rank talks to it. */
export interface LauncherTalk {
  say(message: unknown): void;
  /** Called for each message; those that came before it was set are kept for it. */
  onMessage: ((message: unknown) => void) | undefined;
}

export interface RankGroup {
  readonly communicator: MpiCommunicator;
  readonly launcher: LauncherTalk;
  /** Milliseconds that ranks wait for each other while they start. */
  readonly startTimeout: number;
  /** Waits until all ranks have done their work, and ends the process. */
  finish(): Promise<never>;
  /** Tells launcher and ranks why this rank cannot go on, and ends the process. */
  fail(error: unknown): Promise<never>;
}

/**
 * The group that this process is started for; without one the process ends.
 *
 * @param timeout As `joinGroup` has it.
 */
export async function joinOrExit(timeout?: number): Promise<RankGroup> {
  try {
    return await joinGroup(timeout);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    return process.exit(EXIT.failed);
  }
}

/**
 * Starts MPI, which waits for all ranks.
 *
 * @param timeout Milliseconds that ranks wait for each other while they start. Default: what the launcher says.
 * @throws {UnsupportedError} where this machine has no MPI.
 * @throws {GroupError} when MPI does not start.
 */
export async function joinGroup(timeout = launchersTimeout()): Promise<RankGroup> {
  const { env } = process;
  tameUcx(env);
  chooseNetworkDevices(env);
  const path = env[RANK_VARIABLES.shim] ?? buildShim().path;
  const library = await loadMpiLibrary(path);
  bindTo(env[RANK_VARIABLES.cpus], library);
  const launcher = new LauncherLink(library);
  const communicator = mpiCommunicator(
    library,
    await startMpi(library, timeout),
    EXCHANGE_DEADLINE,
  );
  launcher.follow(communicator);
  launcher.send({ type: "started" });
  return {
    communicator,
    launcher,
    startTimeout: timeout,
    async finish() {
      await meetOnce(communicator, "the end");
      // What this rank has sent last may still need its help on the way to others.
      setInterval(() => library.progress(), 1);
      await launcher.waitForEnd();
      return library.exit(0);
    },
    async fail(error) {
      const reason = error instanceof Error ? error.message : String(error);
      const known = communicator.failure?.message;
      communicator.abort(reason);
      const told = known ?? withoutRank(communicator.rank, reason);
      await launcher.send({ type: "failed", reason: told });
      return library.exit(EXIT.lost);
    },
  };
}

const launchersTimeout = () => Number(process.env[RANK_VARIABLES.timeout] ?? TIMEOUT);

/** Before MPI and the driver start threads of their own. */
function bindTo(cpus: string | undefined, library: MpiLibrary): void {
  if (cpus === undefined) return;
  const error = library.bind(Int32Array.from(cpus.split(","), Number));
  if (error !== 0) throw new GroupError(`Cannot bind a rank to CPUs ${cpus}: error ${error}`);
}

/** All ranks come here, or none goes on. */
export function meetOnce(communicator: Communicator, name: string): Promise<void> {
  const { size } = communicator;
  const counts = Array<number>(size).fill(1);
  return communicator.allGather(new Uint8Array(1), new Uint8Array(size), { name, counts });
}

async function startMpi(library: MpiLibrary, timeout: number) {
  library.start();
  for (const begun = performance.now(); performance.now() - begun < timeout; await sleep(LOOK)) {
    const place = library.started();
    if (place !== undefined) return place;
  }
  throw new GroupError(`Cannot start MPI: not all ranks were there after ${timeout / 1000} s`);
}

/** What a rank has of its launcher; nothing where another program has started it. */
class LauncherLink implements LauncherTalk {
  readonly #library: MpiLibrary;
  readonly #end = deferred<void>();
  #communicator: MpiCommunicator | undefined;
  #isAlone = false;
  #misses = 0;
  #onMessage: LauncherTalk["onMessage"];
  #unheard: unknown[] = [];

  constructor(library: MpiLibrary) {
    this.#library = library;
    const launcher = process.env[RANK_VARIABLES.launcher];
    if (process.send === undefined || launcher === undefined) {
      this.#isAlone = true;
      return;
    }
    // A key that ends the launcher in a terminal reaches ranks too; it says when they end.
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => {});
    if (!library.diesWithParent(Number(launcher))) library.exit(EXIT.lost);
    process.on("disconnect", () => library.exit(EXIT.lost));
    process.on("message", (message) => this.#hear(message as LauncherMessage));
    const beat = Number(process.env[RANK_VARIABLES.beat]);
    // Ticks are counted and not time: a rank that was long in a driver has not heard anything either.
    setInterval(() => {
      this.#misses += 1;
      if (this.#misses > MISSES) library.exit(EXIT.lost);
    }, beat).unref();
  }

  follow(communicator: MpiCommunicator): void {
    this.#communicator = communicator;
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

  /** Resolves once the launcher has it, or is gone. One that is not ours hears why a rank ends by its output. */
  send(message: RankMessage): Promise<void> {
    if (this.#isAlone && message.type === "failed") process.stderr.write(`${message.reason}\n`);
    return new Promise((resolve) => {
      if (process.send === undefined || !process.connected) resolve();
      else process.send(message, () => resolve());
    });
  }

  /** Says that this rank is done, and resolves once all are. */
  async waitForEnd(): Promise<void> {
    const { PMI_FD, [RANK_VARIABLES.signsOff]: signsOff } = process.env;
    if (this.#isAlone) await sleep(LAST_MESSAGES);
    if (PMI_FD !== undefined && (this.#isAlone || signsOff !== undefined)) {
      this.#library.signOff(Number(PMI_FD));
    }
    if (this.#isAlone) return;
    await this.send({ type: "done" });
    await this.#end.promise;
  }

  #hear(message: LauncherMessage): void {
    this.#misses = 0;
    if (message.type === "end") this.#end.resolve();
    if (message.type === "said") {
      if (this.#onMessage === undefined) this.#unheard.push(message.message);
      else this.#onMessage(message.message);
    }
    if (message.type !== "lost") return;
    if (this.#communicator === undefined) this.#library.exit(EXIT.lost);
    else this.#communicator.fail(new GroupError(message.reason));
  }
}
