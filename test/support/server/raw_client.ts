/**
 * A client that writes bytes to a socket, in pieces and at times of its own choosing.
 *
 * @module
 */
import { connect, type Socket } from "node:net";

/** Milliseconds after which an answer does not come any more: nearly all that a test has. */
const PATIENCE = 100_000;

export interface RawAnswer {
  /** Undefined where the connection was closed without a word. */
  readonly status: number | undefined;
  /** Everything that came, as Latin-1. */
  readonly text: string;
}

/** A connection to this machine. Errors of the connection are its end. */
export async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  socket.on("error", () => {});
  await new Promise<void>((resolve) => {
    socket.once("connect", resolve);
    socket.once("close", () => resolve());
  });
  return socket;
}

/**
 * Sends the pieces one after another, lets the server do something in between, and reads until it
 * closes the connection.
 *
 * @param patience Milliseconds after which the client leaves. Default: the client waits, and fails when no end comes.
 * @throws {Error} when the server leaves the client waiting.
 */
export async function exchange(
  port: number,
  pieces: readonly Uint8Array[],
  patience?: number,
): Promise<RawAnswer> {
  const socket = await open(port);
  let text = "";
  socket.on("data", (data) => {
    text += data.toString("latin1");
  });
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    socket.destroy();
  }, patience ?? PATIENCE);
  for (const piece of pieces) {
    if (!socket.writable) break;
    socket.write(piece);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await closed;
  clearTimeout(timer);
  if (isLate && patience === undefined) throw new Error(`No end came after: ${text.slice(0, 500)}`);
  const status = /^(?:HTTP\/1\.1 100 Continue\r\n\r\n)?HTTP\/1\.1 (\d{3}) /.exec(text)?.[1];
  return { status: status === undefined ? undefined : Number(status), text };
}

/** Cuts bytes at random places. */
export function cutAnywhere(bytes: Uint8Array, cuts: number, random: () => number): Uint8Array[] {
  const places = Array.from({ length: cuts }, () => Math.floor(random() * bytes.length));
  const sorted = [0, ...places.sort((a, b) => a - b), bytes.length];
  return sorted.slice(1).map((end, i) => bytes.subarray(sorted[i], end));
}
