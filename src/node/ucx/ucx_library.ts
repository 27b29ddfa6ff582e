/**
 * The C functions of shim.c, for JavaScript, as promises.
 *
 * @module
 */
import { Socket } from "node:net";
import type { MessagePieces } from "../../disaggregation/channel.ts";
import { TransferError, UnsupportedError } from "../../errors.ts";
import { buildUcxShim, UCX_FEATURE } from "./build_ucx_shim.ts";
import { tameUcx } from "./ucx_variables.ts";

/** Kinds of work that are told when they are done; shim.c has the same. */
const SEND = 2;
/** Errors of the shim's own, above those of UCX, which are 0 and less. */
const NO_MEMORY = 1;
const ERRORS: Readonly<Record<number, string>> = {
  [NO_MEMORY]: "there is no memory for it",
  2: "its connection is closed",
  3: "it has another length than was told",
};
/** Bytes of an address at most; one has 100 for each device or so. */
const MAX_ADDRESS_BYTES = 4096;

/** 64 bits that tell messages of one connection from all others. */
export interface Tag {
  readonly low: number;
  readonly high: number;
}

type Bytes = Uint8Array<ArrayBuffer>;
type Settle = (error: Error | undefined, bytes?: Bytes) => void;
/** Pointers are values that only the library knows. */
type Callable = (...values: readonly unknown[]) => unknown;

let opened: UcxLibrary | undefined;

/** UCX in this process, which has one place in it. */
export class UcxLibrary {
  /** How others reach this process, where they have the same version. */
  readonly address: Bytes;
  readonly version: string;
  readonly #functions: ReturnType<typeof functionsOf>;
  /** Tells that something is done. */
  readonly #told: Socket;
  readonly #waiting = new Map<number, Settle>();
  #count = 0;
  #users = 0;
  #hasEnded = false;

  private constructor(functions: ReturnType<typeof functionsOf>, devices: string) {
    this.#functions = functions;
    const out = new Int32Array(1);
    this.#require(functions.open(devices, out), "start");
    const address = new Uint8Array(MAX_ADDRESS_BYTES);
    const length = functions.address(address, address.length) as number;
    if (length < 0 || length > address.length) {
      functions.end();
      this.#require(Math.min(length, -1), "find its address");
    }
    this.address = address.slice(0, length);
    this.version = String(functions.version());
    const started = functions.start();
    if (started !== 0) functions.end();
    this.#require(started, "start a thread");
    this.#told = new Socket({ fd: out[0]!, readable: true, writable: false });
    this.#told.on("data", () => this.#fetch());
    // Servers keep their processes alive, and it does not.
    this.#told.unref();
    // What UCX does when its process ends would be in the way of a thread that goes on.
    process.once("exit", this.#end);
  }

  /**
   * UCX of this process; each call is followed by one of `close`.
   *
   * @param devices Networks as UCX names them; empty for all.
   * @throws {UnsupportedError} that says what is missing.
   */
  static async open(devices: string): Promise<UcxLibrary> {
    tameUcx(process.env);
    const path = buildUcxShim();
    const { default: koffi } = await import("koffi").catch(() => {
      const reason = "the npm package koffi, an optional dependency, is not installed here";
      throw new UnsupportedError(UCX_FEATURE, reason);
    });
    if (opened === undefined) {
      let library: ReturnType<typeof koffi.load>;
      try {
        library = koffi.load(path);
      } catch (cause) {
        throw new UnsupportedError(UCX_FEATURE, `${path} cannot be loaded`, { cause });
      }
      opened = new UcxLibrary(
        functionsOf((declaration) => library.func(declaration)),
        devices,
      );
    }
    opened.#users += 1;
    return opened;
  }

  /** @returns Number of the connection, which `send` and `disconnect` take. */
  connect(address: Bytes): { readonly peer: number; readonly connected: Promise<unknown> } {
    const peer = this.#next();
    const connected = this.#asked(peer, "connect", () =>
      this.#functions.connect(peer, address, address.length),
    );
    return { peer, connected };
  }

  /** Resolves once a message, whose pieces may change at once, is on its way or there. */
  send(peer: number, { low, high }: Tag, pieces: MessagePieces): Promise<unknown> {
    const id = this.#next();
    return this.#asked(id, "send", () => {
      const { prepare, put, send } = this.#functions;
      const message = prepare(id, low, high, lengthOf(pieces));
      if (message === null) return NO_MEMORY;
      let at = 0;
      for (const piece of pieces) {
        put(message, at, piece, piece.length);
        at += piece.length;
      }
      return send(message, peer);
    });
  }

  /** The next bytes that come for a tag. @throws {TransferError} when there are not so many. */
  receive({ low, high }: Tag, length: number): Promise<Bytes> {
    const id = this.#next();
    return this.#asked(id, "receive", () =>
      this.#functions.receive(id, low, high, length),
    ) as Promise<Bytes>;
  }

  /** What is on its way there fails. */
  disconnect(peer: number): void {
    if (!this.#hasEnded) this.#functions.close(peer);
  }

  /** Nothing of a tag is received any more: what is waited for fails. */
  forget({ low, high }: Tag): void {
    if (!this.#hasEnded) this.#functions.forget(low, high);
  }

  /** Ends UCX, unless others of this process use it. */
  close(): void {
    this.#users -= 1;
    if (this.#users > 0) return;
    opened = undefined;
    process.off("exit", this.#end);
    this.#end();
    this.#told.destroy();
    for (const settle of this.#waiting.values()) settle(problem("go on", "UCX has ended"));
    this.#waiting.clear();
  }

  readonly #end = (): void => {
    this.#hasEnded = true;
    this.#functions.end();
  };

  #next(): number {
    this.#count = (this.#count + 1) % 2 ** 31;
    return this.#count;
  }

  #asked(id: number, what: string, ask: () => unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const settle: Settle = (error, bytes) =>
        error === undefined ? resolve(bytes) : reject(error);
      if (this.#hasEnded) return reject(problem(what, "UCX has ended"));
      this.#waiting.set(id, settle);
      const status = ask() as number;
      if (status === 0) return;
      this.#waiting.delete(id);
      reject(problem(what, this.#text(status)));
    });
  }

  /** Takes what is done. */
  #fetch(): void {
    const out = new Int32Array(4);
    while (this.#functions.look(out) !== 0) {
      const [kind, id, status, length] = out as unknown as [number, number, number, number];
      const bytes = new Uint8Array(status === 0 ? length : 0);
      this.#functions.fetch(bytes, bytes.length);
      const settle = this.#waiting.get(id);
      this.#waiting.delete(id);
      const what = kind === SEND ? "send" : "go on";
      settle?.(status === 0 ? undefined : problem(what, this.#text(status)), bytes);
    }
  }

  #text(status: number): string {
    return ERRORS[status] ?? String(this.#functions.text(status));
  }

  #require(status: unknown, what: string): void {
    if (status === 0) return;
    const number = status as number;
    const text = number > 0 ? `error ${number} of the system` : this.#text(number);
    throw new UnsupportedError(UCX_FEATURE, `UCX cannot ${what}: ${text}`);
  }
}

/** Bytes of all pieces. */
export function lengthOf(pieces: MessagePieces): number {
  return pieces.reduce((sum, { length }) => sum + length, 0);
}

function problem(what: string, state: string): TransferError {
  return new TransferError("cache pages", "connection", `UCX cannot ${what}: ${state}`);
}

/** Memory is passed by address, and is not held beyond a call. */
function functionsOf(declare: (declaration: string) => Callable) {
  return {
    open: declare("int wisp_ucx_open(str devices, void *descriptor)"),
    address: declare("int wisp_ucx_address(void *into, int most)"),
    version: declare("str wisp_ucx_version()"),
    start: declare("int wisp_ucx_start()"),
    connect: declare("int wisp_ucx_connect(uint32_t peer, void *address, int length)"),
    prepare: declare(
      "void *wisp_ucx_prepare(uint32_t id, uint32_t low, uint32_t high, int length)",
    ),
    put: declare("void wisp_ucx_put(void *message, int at, void *bytes, int length)"),
    send: declare("int wisp_ucx_send(void *message, uint32_t peer)"),
    receive: declare("int wisp_ucx_receive(uint32_t id, uint32_t low, uint32_t high, int length)"),
    close: declare("int wisp_ucx_close(uint32_t peer)"),
    forget: declare("int wisp_ucx_forget(uint32_t low, uint32_t high)"),
    look: declare("int wisp_ucx_look(void *out)"),
    fetch: declare("void wisp_ucx_fetch(void *into, int length)"),
    text: declare("str wisp_ucx_text(int status)"),
    end: declare("void wisp_ucx_end()"),
  };
}
