/**
 * Requests to a server of files, such as a model hub, and to the stores it points to.
 *
 * Access tokens go to that server alone, never to where it redirects. A connection on which nothing
 * comes for a while is given up. Failures become two kinds: those that may pass, and the rest.
 *
 * @module
 */

import { DownloadError, PassingError, readRetryAfter } from "./retries.ts";

export interface FileRequestsOptions {
  /** Address of the server, which the paths of requests are put behind. */
  readonly endpoint: string;
  /** For the server alone, such as `authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** Milliseconds without a byte after which a connection is given up. */
  readonly idleTimeout: number;
  /**
   * True on a page and in its workers, where `fetch` follows redirects by itself, unseen, and only
   * a request for a range is sure not to be answered with compressed bytes. Default false.
   */
  readonly onPage?: boolean;
  /** What the server means by a status that is no answer, where it says more than its number. */
  readonly explain?: (status: number, headers: Headers) => string | undefined;
}

export interface FileRequest {
  /** For messages. */
  readonly subject: string;
  /** Behind the endpoint, with its slash. */
  readonly path: string;
  readonly method?: "GET" | "HEAD";
  readonly headers?: Readonly<Record<string, string>>;
  /** Statuses that are answers and no failures. */
  readonly expected: readonly number[];
}

export interface FileReply {
  readonly status: number;
  /** Of the server that gave the answer. */
  readonly headers: Headers;
  /** A header of the server's own, wherever it has redirected to. */
  ownHeader(name: string): string | null;
  /** The body. Leaving the loop ends the connection. */
  chunks(): AsyncGenerator<Uint8Array>;
}

interface Exchange {
  readonly request: FileRequest;
  readonly signal: AbortSignal;
  /** Says that the connection is alive. */
  readonly touch: () => void;
  /** What a failure of the connection means. */
  readonly failure: (problem: string, cause: unknown) => unknown;
}

export const MOST_REDIRECTS = 10;
const REDIRECTS: readonly number[] = [301, 302, 303, 307, 308];
/** Statuses below 500 that may pass: a timeout, too early, too many requests. */
const PASSING: readonly number[] = [408, 425, 429];

export class FileRequests {
  readonly #options: FileRequestsOptions;

  constructor(options: FileRequestsOptions) {
    this.#options = options;
  }

  get endpoint(): string {
    return this.#options.endpoint;
  }

  /**
   * Sends one request, follows its redirects and gives the answer to `use`. The connection ends
   * with `use`.
   *
   * @throws {PassingError} when a retry may help.
   * @throws {DownloadError} when it would not.
   */
  async exchange<T>(request: FileRequest, use: (reply: FileReply) => Promise<T>): Promise<T> {
    const { signal, idleTimeout } = this.#options;
    signal.throwIfAborted();
    const ending = new AbortController();
    let isIdle = false;
    const giveUp = () => {
      isIdle = true;
      ending.abort();
    };
    let timer = setTimeout(giveUp, idleTimeout);
    const stop = () => ending.abort();
    signal.addEventListener("abort", stop);
    const failure = (problem: string, cause: unknown) => {
      if (signal.aborted) return signal.reason;
      const silence = `nothing came for ${Math.round(idleTimeout / 100) / 10} s`;
      return connectionFailure(request.subject, isIdle ? silence : problem, isIdle ? null : cause);
    };
    const touch = () => {
      clearTimeout(timer);
      timer = setTimeout(giveUp, idleTimeout);
    };
    try {
      const exchange = { request, signal: ending.signal, touch, failure };
      return await use(await this.#follow(exchange));
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
      ending.abort();
    }
  }

  async #follow(exchange: Exchange): Promise<FileReply> {
    const { subject, path, method, expected } = exchange.request;
    const server = new URL(this.#options.endpoint);
    const ownHeaders: Headers[] = [];
    let url = new URL(this.#options.endpoint + path);
    for (let redirects = 0; redirects <= MOST_REDIRECTS; redirects++) {
      const response = await this.#send(url, exchange);
      exchange.touch();
      const { status, headers } = response;
      // Where it came from in the end, which on a page is all there is to know.
      const from = new URL(response.url || url);
      if (from.origin === server.origin) ownHeaders.unshift(headers);
      const location = headers.get("location");
      // The store behind a hub need not answer HEAD, and the hub has told what it is asked.
      const isTold = method === "HEAD" && headers.has("x-linked-etag") && status < 400;
      if (isTold || !REDIRECTS.includes(status) || location === null) {
        if (!isTold && !expected.includes(status)) throw this.#refusal(subject, from, response);
        return {
          status,
          headers,
          ownHeader: (name) => ownHeaders.find((each) => each.has(name))?.get(name) ?? null,
          chunks: () => chunks(response, exchange),
        };
      }
      // Its end is not awaited: it may never come once the request is ended from elsewhere.
      response.body?.cancel().catch(() => {});
      url = redirected(subject, url, location);
    }
    throw new DownloadError(subject, `${server.origin} redirects in circles`);
  }

  async #send(url: URL, { request, signal, failure }: Exchange): Promise<Response> {
    const { endpoint, headers: own = {}, onPage = false } = this.#options;
    const isOwn = url.origin === new URL(endpoint).origin;
    const headers = new Headers({ ...(isOwn && own), ...request.headers });
    // Ranges and lengths are about the file itself, so it must not come compressed.
    if (!onPage) headers.set("accept-encoding", "identity");
    const redirect = onPage ? "follow" : "manual";
    const { method = "GET" } = request;
    try {
      return await untilEnded(fetch(url, { method, headers, signal, redirect }), signal);
    } catch (cause) {
      const closed = onPage && !isOwnPage(url) ? ", or is closed to this page" : "";
      throw failure(`${url.origin} cannot be reached${closed}`, cause);
    }
  }

  #refusal(subject: string, url: URL, { status, headers }: Response): Error {
    const retryAfter = readRetryAfter(headers.get("retry-after"));
    const answers = `${url.origin} answers ${status}`;
    if (status >= 500 || PASSING.includes(status)) return new PassingError(answers, retryAfter);
    const { endpoint, explain } = this.#options;
    // Of the store behind a hub no token gives access.
    const isOwn = url.origin === new URL(endpoint).origin;
    const reason = (isOwn && explain?.(status, headers)) || headers.get("x-error-message");
    return new DownloadError(subject, reason ? `${answers}: ${reason}` : answers);
  }
}

async function* chunks(response: Response, exchange: Exchange): AsyncGenerator<Uint8Array> {
  if (response.body === null) return;
  const { signal, touch, failure } = exchange;
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await untilEnded(reader.read(), signal).catch((cause: unknown) => {
        throw failure("the transfer broke off", cause);
      });
      if (done) return;
      touch();
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * What `work` comes to, or the signal's reason as soon as it is aborted. Node's fetch promises the
 * same, but sometimes neither its promise nor that of a read ever settles after an abort.
 */
function untilEnded<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const end = () => reject(signal.reason);
    if (signal.aborted) end();
    signal.addEventListener("abort", end);
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", end));
  });
}

/** Servers of other origins decide whether a page may read from them. */
function isOwnPage({ origin }: URL): boolean {
  return origin === globalThis.location?.origin;
}

function redirected(subject: string, from: URL, location: string): URL {
  if (!URL.canParse(location, from)) {
    throw new DownloadError(subject, `${from.origin} redirects to "${location}"`);
  }
  const to = new URL(location, from);
  const isSafe = to.protocol === "https:" || (to.protocol === "http:" && from.protocol === "http:");
  if (isSafe) return to;
  throw new DownloadError(subject, `${from.origin} redirects to ${to.origin}, which is not safe`);
}

function connectionFailure(subject: string, problem: string, cause: unknown): Error {
  const inner = (cause as Error | null)?.cause ?? cause;
  const { code, message } = (inner ?? {}) as { readonly code?: string; readonly message?: string };
  const text = inner === null ? problem : `${problem} (${code ?? message ?? inner})`;
  // No certificate becomes valid by asking again.
  const isLasting = /CERT|SELF_SIGNED|ERR_TLS|ERR_SSL/.test(code ?? "");
  return isLasting
    ? new DownloadError(subject, text, { cause })
    : new PassingError(text, undefined, { cause });
}
