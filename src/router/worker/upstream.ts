/**
 * How the router talks to its workers: the platform gives a function that sends one request.
 *
 * @module
 */
import { HttpError } from "../../http/error_response.ts";

export interface UpstreamRequest {
  readonly url: string;
  readonly method: string;
  /** Without those that say how the bytes are sent. */
  readonly headers: Readonly<Record<string, string>>;
  /** Default: none. */
  readonly body?: Uint8Array | undefined;
  /** Closes the connection, before the answer and within it. */
  readonly signal: AbortSignal;
}

/** The body of an answer, as it comes. */
export interface UpstreamBody {
  /**
   * The next bytes; undefined behind the last ones. Called again once it has resolved.
   *
   * @throws {HttpError} `worker_failed` when the worker breaks off.
   */
  read(): Promise<Uint8Array | undefined>;
  /** Nothing more is read: what is left of the answer is not waited for. */
  cancel(): void;
}

export interface UpstreamAnswer {
  readonly status: number;
  /** As they came, with the names in small letters. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: UpstreamBody;
}

/**
 * Resolves when the headers of the answer are there. Connections are kept for later requests; one
 * that the worker has closed meanwhile is replaced by a new one.
 *
 * @throws {HttpError} `worker_failed` when the worker cannot be reached or breaks off.
 * @throws the signal's reason.
 */
export type Upstream = (request: UpstreamRequest) => Promise<UpstreamAnswer>;

/** Bytes of an answer that the router itself reads. */
const MAX_ANSWER = 2 ** 20;

export interface Asked {
  readonly status: number;
  readonly text: string;
}

/**
 * Sends a request whose answer the router itself reads.
 *
 * @param timeout Milliseconds in which all of the answer must be there.
 * @throws {HttpError} `worker_failed` or `worker_timed_out`.
 * @throws the signal's reason.
 */
export async function ask(
  upstream: Upstream,
  request: UpstreamRequest,
  timeout: number,
): Promise<Asked> {
  const { url, signal } = request;
  return within({ signal, timeout, what: url }, async (limit) => {
    const answer = await upstream({ ...request, signal: limit });
    const tooLarge = () => {
      const problem = `its answer has more than ${MAX_ANSWER} bytes`;
      return new HttpError("worker_failed", `Cannot ask ${url}: ${problem}`);
    };
    return { status: answer.status, text: await readText(answer.body, MAX_ANSWER, tooLarge) };
  });
}

interface TimeLimit {
  readonly signal: AbortSignal;
  /** Milliseconds. */
  readonly timeout: number;
  /** What is asked for, in the error. */
  readonly what: string;
}

/**
 * Does a piece of work whose signal also ends it when its time is over.
 *
 * @throws {HttpError} `worker_timed_out`.
 */
export async function within<T>(
  { signal, timeout, what }: TimeLimit,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const problem = `Cannot ask ${what}: no answer came in ${timeout / 1000} seconds`;
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(new HttpError("worker_timed_out", problem)), timeout);
  const leave = () => limit.abort(signal.reason);
  signal.addEventListener("abort", leave, { once: true });
  if (signal.aborted) leave();
  try {
    return await work(limit.signal);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", leave);
  }
}

/**
 * All of a body.
 *
 * @param max Bytes.
 * @throws what `tooLarge` makes where there are more.
 */
export async function readText(
  body: UpstreamBody,
  max: number,
  tooLarge: () => Error,
): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let length = 0;
  for (;;) {
    const bytes = await body.read();
    if (bytes === undefined) return text + decoder.decode();
    length += bytes.length;
    if (length > max) {
      body.cancel();
      throw tooLarge();
    }
    text += decoder.decode(bytes, { stream: true });
  }
}
