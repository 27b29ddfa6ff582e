/**
 * The C functions of shim.c, for JavaScript. Each returns at once.
 *
 * @module
 */
import { GroupError, UnsupportedError } from "../../errors.ts";

/** What an exchange has come to; shim.c has the same numbers. */
export const STATE = {
  pending: 0,
  done: 1,
  /** A rank came for something else. */
  differs: 2,
  /** A rank has left. */
  left: 3,
  failed: 4,
  noMemory: 5,
  /** A rank came without its part; the next exchange may follow. */
  spoiled: 6,
  /** All ranks have come, and bytes are on their way. */
  moving: 7,
  /** A rank has more bytes for this one, or fewer, than it is to have. */
  sizes: 8,
} as const;

/** Bytes of a text that a rank tells others; longer ones are cut, and compared by a hash too. */
export const TEXT_BYTES = 480;
/** Of each rank's part: MPI counts in 32 bits. */
export const MOST_BYTES = 2 ** 31 - 1;

/** What a rank told another. */
export interface Told {
  readonly rank: number;
  /** The text is the whole message of an error, not a reason. */
  readonly isWhole: boolean;
  readonly text: string;
}

export interface MpiLibrary {
  /** Begins to start MPI, which waits for every rank, in a thread of its own. */
  start(): void;
  /** Undefined until MPI has started. @throws {GroupError} when it cannot. */
  started(): { readonly rank: number; readonly size: number } | undefined;
  /**
   * Begins an exchange and looks at it like `poll`. @returns A state.
   *
   * @param text What it is, which all ranks must bring alike.
   */
  gather(
    text: Uint8Array,
    part: Uint8Array,
    counts: Int32Array,
    into: Uint8Array,
    microseconds: number,
  ): number;
  /**
   * The same of an exchange in which every rank has bytes of its own for each.
   *
   * @param sends Bytes for each rank, one behind the other in `part`.
   * @param counts Bytes from each, one behind the other in `into`.
   */
  allToAll(
    text: Uint8Array,
    [part, sends]: readonly [Uint8Array, Int32Array],
    [into, counts]: readonly [Uint8Array, Int32Array],
    microseconds: number,
  ): number;
  /**
   * Memory that exchanges use where it is, while they last; it is never freed.
   *
   * @throws {GroupError} when there is none.
   */
  allocate(bytes: number): Uint8Array<ArrayBuffer>;
  /** Comes without a part to the exchange that the others come to, and tells them why. @returns A state. */
  spoil(reason: string, microseconds: number): number;
  /** Looks for some microseconds whether the exchange is done, and fills `into` then. @returns A state. */
  poll(into: Uint8Array, microseconds: number): number;
  /** Moves what this rank has sent on its way, between exchanges. */
  progress(): void;
  /** Tells every rank that this one is gone. */
  leave(text: string, isWhole: boolean): void;
  /** What the rank said that an exchange ended for with this state. */
  told(state: number): Told;
  /** Ranks whose bytes are missing. */
  missing(): readonly number[];
  /** @returns False where the process that started this one is gone already. */
  diesWithParent(pid: number): boolean;
  /** Binds this process to CPUs. @returns The system's number of an error, or 0. */
  bind(cpus: Int32Array): number;
  /** Tells a launcher of another program, over its descriptor, that this rank ends in order. */
  signOff(descriptor: number): void;
  /** Ends the process without what libraries do at an end, which may wait for ranks that are gone. */
  exit(code: number): never;
}

/**
 * What calls C.
 *
 * @throws {UnsupportedError} where npm has left it out.
 */
export async function importKoffi() {
  const { default: koffi } = await import("koffi").catch(() => {
    const reason =
      "the npm package koffi, which is an optional dependency, is not installed here; npm install koffi brings it";
    throw new UnsupportedError("ranks over MPI", reason);
  });
  return koffi;
}

/**
 * @param path The library that `buildShim` has built.
 * @throws {UnsupportedError} where npm has left koffi out, or the library cannot be loaded.
 */
export async function loadMpiLibrary(path: string): Promise<MpiLibrary> {
  const koffi = await importKoffi();
  try {
    const library = koffi.load(path);
    const view = (address: unknown, bytes: number) => koffi.view(address, bytes);
    return bind((declaration) => library.func(declaration), view);
  } catch (cause) {
    throw new UnsupportedError("ranks over MPI", `${path} cannot be loaded`, { cause });
  }
}

/** A C function. Memory is passed by address, and is not held beyond the call. */
type Callable = (...values: readonly (number | Uint8Array | Int32Array)[]) => unknown;

/** Calls what takes a text, as bytes and how many, and a number. */
function call(one: Callable, text: string, value: number): unknown {
  const bytes = new TextEncoder().encode(text);
  return one(bytes, bytes.length, value);
}

function toldBy(failingPeer: Callable, state: number): Told {
  const out = new Int32Array(2);
  const text = new Uint8Array(TEXT_BYTES);
  const length = failingPeer(state, out, text) as number;
  const told = new TextDecoder().decode(text.subarray(0, length));
  return { rank: out[0]!, isWhole: out[1] === 1, text: told };
}

/** Those that begin an exchange whose bytes all ranks have. */
function bindExchanges(
  declare: (declaration: string) => Callable,
): Pick<MpiLibrary, "gather" | "allToAll"> {
  const gather = declare(
    "int wisp_gather(void *text, int length, void *part, void *counts, void *into, int slice)",
  );
  const allToAll = declare(
    "int wisp_all_to_all(void *text, int length, void *part, void *sends, void *into, void *counts, int slice)",
  );
  return {
    gather: (text, part, counts, into, microseconds) =>
      gather(text, text.length, part, counts, into, microseconds) as number,
    allToAll: (text, [part, sends], [into, counts], microseconds) =>
      allToAll(text, text.length, part, sends, into, counts, microseconds) as number,
  };
}

function bind(
  declare: (declaration: string) => Callable,
  view: (address: unknown, bytes: number) => ArrayBuffer,
): MpiLibrary {
  const start = declare("int wisp_start()");
  const started = declare("int wisp_started(void *out)");
  const allocate = declare("void *wisp_allocate(size_t bytes)");
  const spoil = declare("int wisp_spoil(void *text, int length, int slice)");
  const poll = declare("int wisp_poll(void *into, int slice)");
  const progress = declare("int wisp_progress()");
  const leave = declare("int wisp_leave(void *text, int length, int whole)");
  const failingPeer = declare("int wisp_failing_peer(int state, void *out, void *text)");
  const arrived = declare("int wisp_arrived(void *out)");
  const dieWithParent = declare("int wisp_die_with_parent(int parent)");
  const bindTo = declare("int wisp_bind(void *cpus, int count)");
  const signOff = declare("int wisp_sign_off(int fd)");
  const exit = declare("void wisp_exit(int code)");
  let size = 0;
  return {
    start() {
      const error = start() as number;
      if (error !== 0) throw new GroupError(`Cannot start MPI: no thread (error ${error})`);
    },
    started() {
      const out = new Int32Array(4);
      const state = started(out) as number;
      if (state === 0) return undefined;
      if (state < 0) {
        throw new GroupError(`Cannot start MPI: error ${out[3]}, threads of level ${out[2]}`);
      }
      size = out[1]!;
      return { rank: out[0]!, size };
    },
    ...bindExchanges(declare),
    allocate(bytes) {
      const address = allocate(bytes);
      if (address === null) throw new GroupError(`Cannot exchange: no memory for ${bytes} bytes`);
      return new Uint8Array(view(address, bytes));
    },
    spoil: (reason, microseconds) => call(spoil, reason, microseconds) as number,
    poll: (into, microseconds) => poll(into, microseconds) as number,
    progress: () => void progress(),
    leave: (text, isWhole) => void call(leave, text, isWhole ? 1 : 0),
    told: (state) => toldBy(failingPeer, state),
    missing() {
      const here = new Uint8Array(size);
      arrived(here);
      return [...here.keys()].filter((rank) => here[rank] === 0);
    },
    diesWithParent: (pid) => dieWithParent(pid) === 0,
    bind: (cpus) => bindTo(cpus, cpus.length) as number,
    signOff: (descriptor) => void signOff(descriptor),
    exit(code) {
      exit(code);
      throw new GroupError("Cannot end this process: the system has refused it");
    },
  };
}
