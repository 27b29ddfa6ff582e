/**
 * One request whose answer is a stream of server-sent events, and when each of them came.
 *
 * It is made for measuring: Node's own HTTP client over connections that are kept alive, one parse
 * an event, and nothing between the socket and the clock.
 *
 * @module
 */
import { type Agent, type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { performance } from "node:perf_hooks";
import { EngineError } from "../../errors.ts";
import type { TrafficBackend } from "./backends.ts";

/** A request that did not get its whole answer. */
export class TrafficError extends EngineError {
  readonly code = "load_failed";
}

/** One answer as its client saw it. All times are in milliseconds. */
export interface RequestRecord {
  /** As the server counts them; 0 where it does not say. */
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Until its first token. */
  readonly timeToFirstToken: number;
  /** Between tokens that follow each other; the tokens of one event share the time before it. */
  readonly interTokenLatencies: readonly number[];
  /** Until its stream was over. */
  readonly endToEndLatency: number;
  readonly text: string;
}

export interface StreamedRequestOptions {
  readonly backend: TrafficBackend;
  /** Of the server, without a slash at the end. */
  readonly baseUrl: string;
  readonly agent: Agent;
  readonly headers?: Readonly<Record<string, string>>;
  /** Milliseconds without a byte after which the request has failed. */
  readonly timeout: number;
}

const DATA = "data:";
const DONE = "[DONE]";

/**
 * Posts a body and reads the answer to its end. A connection that the server has closed while no
 * request used it is no failure: the request is sent on another.
 *
 * @throws {TrafficError} when the server refuses it, the connection fails, an event tells of an error,
 * or the stream ends without `[DONE]`.
 */
export function streamedRequest(
  body: object,
  options: StreamedRequestOptions,
): Promise<RequestRecord> {
  return send(JSON.stringify(body), new AnswerReader(options.backend), options);
}

function send(
  text: string,
  reader: AnswerReader,
  options: StreamedRequestOptions,
): Promise<RequestRecord> {
  const { backend, baseUrl, agent, headers, timeout } = options;
  const request = (baseUrl.startsWith("https:") ? requestHttps : requestHttp)(
    baseUrl + backend.path,
    {
      method: "POST",
      agent,
      timeout,
      headers: {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(text),
        ...headers,
      },
    },
  );
  return new Promise<RequestRecord>((resolve, reject) => {
    let isAnswered = false;
    const fail = (error: Error) => {
      request.destroy();
      if (!isAnswered && request.reusedSocket && wasClosed(error)) {
        resolve(send(text, reader, options));
        return;
      }
      reject(error instanceof TrafficError ? error : new TrafficError(error.message));
    };
    request.on("response", (response) => {
      isAnswered = true;
      const answer = response.statusCode === 200 ? readStream : readRefusal;
      answer(response, reader).then(resolve, fail);
    });
    request.on("timeout", () => fail(new TrafficError(`nothing came for ${timeout / 1000} s`)));
    request.on("error", fail);
    request.end(text);
  });
}

function wasClosed({ code }: NodeJS.ErrnoException): boolean {
  return code === "ECONNRESET" || code === "EPIPE";
}

function readStream(response: IncomingMessage, reader: AnswerReader): Promise<RequestRecord> {
  response.setEncoding("utf8");
  return new Promise((resolve, reject) => {
    response.on("data", (piece: string) => {
      try {
        reader.push(piece);
      } catch (error) {
        reject(error);
      }
    });
    response.on("error", reject);
    response.on("end", () => {
      try {
        resolve(reader.end());
      } catch (error) {
        reject(error);
      }
    });
  });
}

async function readRefusal(response: IncomingMessage): Promise<never> {
  response.setEncoding("utf8");
  let text = "";
  for await (const piece of response) text += piece;
  throw new TrafficError(`status ${response.statusCode}: ${text.slice(0, 300)}`);
}

/** The events of one answer as they come. */
class AnswerReader {
  readonly #backend: TrafficBackend;
  readonly #startedAt = performance.now();
  readonly #gaps: number[] = [];
  #pending = "";
  #text = "";
  #isDone = false;
  #firstAfter: number | undefined;
  #lastAt = 0;
  #promptTokens = 0;
  #completionTokens = 0;

  constructor(backend: TrafficBackend) {
    this.#backend = backend;
  }

  /** Takes a piece of the stream: any number of events, the last of them perhaps in part. */
  push(piece: string): void {
    const now = performance.now();
    const text = this.#pending + piece;
    let start = 0;
    for (let end = text.indexOf("\n", start); end >= 0; end = text.indexOf("\n", start)) {
      if (text.startsWith(DATA, start)) this.#event(text.slice(start + DATA.length, end), now);
      start = end + 1;
    }
    this.#pending = text.slice(start);
  }

  #event(data: string, now: number): void {
    const payload = data.trim();
    if (payload === DONE) {
      this.#isDone = true;
      return;
    }
    const event = JSON.parse(payload) as Readonly<Record<string, unknown>>;
    if (event.error) throw new TrafficError(`an event tells of an error: ${payload.slice(0, 300)}`);
    const { text, promptTokens, completionTokens } = this.#backend.read(event);
    this.#promptTokens = promptTokens ?? this.#promptTokens;
    const before = this.#completionTokens;
    if (this.#backend.isCumulative) {
      this.#text = text;
      this.#completionTokens = completionTokens ?? before;
      this.#time(this.#completionTokens - before, now);
    } else {
      // Each text counts as a token until the server sends its count at the end.
      const tokens = text === "" ? 0 : 1;
      this.#text += text;
      this.#completionTokens = completionTokens ?? before + tokens;
      this.#time(tokens, now);
    }
  }

  #time(tokens: number, now: number): void {
    if (tokens === 0) return;
    if (this.#firstAfter === undefined) this.#firstAfter = now - this.#startedAt;
    else for (let i = 0; i < tokens; i++) this.#gaps.push((now - this.#lastAt) / tokens);
    this.#lastAt = now;
  }

  end(): RequestRecord {
    if (!this.#isDone) throw new TrafficError(`the stream ended without ${DONE}`);
    if (this.#firstAfter === undefined) throw new TrafficError("the stream ended without a token");
    return {
      promptTokens: this.#promptTokens,
      completionTokens: this.#completionTokens,
      timeToFirstToken: this.#firstAfter,
      interTokenLatencies: this.#gaps,
      endToEndLatency: performance.now() - this.#startedAt,
      text: this.#text,
    };
  }
}
