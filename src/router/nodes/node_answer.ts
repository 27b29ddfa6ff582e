/**
 * The answer of a decode node to one request, as it comes: its head, its bytes, and the tokens that its
 * engine has told, by which another server can go on.
 *
 * @module
 */
import { HttpError } from "../../http/error_response.ts";
import type { UpstreamAnswer, UpstreamBody } from "../worker/upstream.ts";
import {
  MAX_BEGUN_ANSWERS,
  MAX_BEGUN_TOKENS,
  MAX_NODE_BYTES_AHEAD,
  MAX_NODE_MESSAGE_BYTES,
} from "./limits.ts";
import type { NodeMessage } from "./node_messages.ts";

/**
 * What is taken of the headers of a page that answers: no more than the answer needs. That a server has
 * failed, or that no other one is to be asked, a page does not say.
 */
const HEADERS: readonly string[] = ["content-type"];
const CONTENT_TYPES = /^(application\/json|text\/event-stream|application\/x-ndjson)\b/;
const HEADER_UNITS = 256;

/** Milliseconds in which a node says the next of an answer that is awaited. */
export const SILENCE_TIME = 60_000;

/** What is known of answers that a node has begun. */
export class BegunAnswers {
  /** Of draws of a request that names no seed. */
  readonly seed: number;
  /** By the number of the answer. */
  readonly tokens: number[][] = [];
  #count = 0;

  constructor(seed: number) {
    this.seed = seed;
  }

  /** @throws {TypeError} for what are no tokens, or too many. */
  take(answer: number, tokens: readonly unknown[]): void {
    this.#count += tokens.length;
    const isWrong = answer >= MAX_BEGUN_ANSWERS || this.#count > MAX_BEGUN_TOKENS;
    if (isWrong || !tokens.every((token) => Number.isInteger(token) && (token as number) >= 0)) {
      throw new TypeError("it tells tokens that no answer has");
    }
    // Answers of one request begin in any order.
    while (this.tokens.length <= answer) this.tokens.push([]);
    for (const token of tokens) this.tokens[answer]!.push(token as number);
  }
}

export interface NodeAnswerOptions {
  readonly begun: BegunAnswers;
  /** Resolves when the prefill server's part is over: until then nothing is awaited of the node. */
  readonly prefilled: Promise<unknown>;
  /** So many bytes have left: the node may send as many more. */
  readonly taken: (bytes: number) => void;
  /** Called once when nothing more is wanted of it. */
  readonly leave: () => void;
}

type Next = Uint8Array | undefined;

export class NodeAnswer implements UpstreamBody {
  /** Resolves with its head. */
  readonly answer: Promise<UpstreamAnswer>;
  readonly #options: NodeAnswerOptions;
  #settle!: { resolve(answer: UpstreamAnswer): void; reject(error: unknown): void };
  readonly #waiting: Uint8Array[] = [];
  #ahead = 0;
  #reading: { resolve(next: Next): void; reject(error: unknown): void } | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;
  #hasHead = false;
  #isPrefilled = false;
  #isOver = false;
  #error: unknown;

  constructor(options: NodeAnswerOptions) {
    this.#options = options;
    this.answer = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    this.answer.catch(() => {});
    void options.prefilled.then(() => {
      this.#isPrefilled = true;
      this.#limitSilence();
    });
  }

  /** @throws {TypeError} for what it may not say. */
  hear(message: Extract<NodeMessage, { id: number }>): void {
    if (this.#isOver) return;
    this.#hear(message);
    this.#limitSilence();
  }

  #hear(message: Extract<NodeMessage, { id: number }>): void {
    switch (message.type) {
      case "head":
        this.#head(message);
        break;
      case "tokens":
        this.#options.begun.take(message.answer, message.tokens);
        break;
      case "end":
        if (!this.#hasHead) throw new TypeError("an answer ends before it has begun");
        this.#isOver = true;
        this.#reading?.resolve(undefined);
        this.#reading = undefined;
        break;
      case "failed":
        this.fail(workerFailed(message.problem));
        break;
      default:
        message satisfies never;
    }
  }

  /** @throws {TypeError} for more than it may send. */
  take(bytes: Uint8Array): void {
    if (this.#isOver) return;
    this.#ahead += bytes.length;
    if (!this.#hasHead || this.#ahead > MAX_NODE_BYTES_AHEAD + MAX_NODE_MESSAGE_BYTES) {
      throw new TypeError("it sends bytes that it may not send yet");
    }
    if (bytes.length === 0) return;
    if (this.#reading === undefined) {
      this.#waiting.push(bytes);
      return;
    }
    const { resolve } = this.#reading;
    this.#reading = undefined;
    this.#limitSilence();
    this.#leaves(bytes);
    resolve(bytes);
  }

  /** The node is gone, or the request has ended. */
  fail(error: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#error = error;
    this.#settle.reject(error);
    this.#reading?.reject(error);
    this.#reading = undefined;
    this.#limitSilence();
  }

  read(): Promise<Next> {
    const bytes = this.#waiting.shift();
    if (bytes !== undefined) {
      this.#leaves(bytes);
      return Promise.resolve(bytes);
    }
    if (this.#error !== undefined) return Promise.reject(this.#error);
    if (this.#isOver) return Promise.resolve(undefined);
    return new Promise((resolve, reject) => {
      this.#reading = { resolve, reject };
      this.#limitSilence();
    });
  }

  cancel(): void {
    this.#isOver = true;
    this.#waiting.length = 0;
    this.#limitSilence();
    this.#options.leave();
  }

  /** From now on, where the next is awaited: not while the client is behind. */
  #limitSilence(): void {
    clearTimeout(this.#silence);
    if (this.#isOver || !this.#isPrefilled) return;
    if (this.#hasHead && this.#reading === undefined) return;
    this.#silence = setTimeout(() => {
      this.fail(workerFailed(`it says nothing for ${SILENCE_TIME / 1000} s`));
      this.#options.leave();
    }, SILENCE_TIME);
  }

  #head({ status, headers }: Extract<NodeMessage, { type: "head" }>): void {
    if (this.#hasHead || status < 200 || status > 599) throw new TypeError("its head is none");
    const given = HEADERS.flatMap((name) => {
      const value = headers[name];
      const isText = typeof value === "string" && value.length <= HEADER_UNITS;
      return isText && /^[\x20-\x7e]*$/.test(value) ? [[name, value] as const] : [];
    });
    const type = given.find(([name]) => name === "content-type")?.[1] ?? "application/json";
    if (!CONTENT_TYPES.test(type)) throw new TypeError("its answer is of another kind");
    this.#hasHead = true;
    this.#settle.resolve({ status, headers: given, body: this });
  }

  #leaves({ length }: Uint8Array): void {
    this.#ahead -= length;
    this.#options.taken(length);
  }
}

export function workerFailed(problem: string): HttpError {
  const state = `the decode node broke off (${problem.slice(0, 200)})`;
  return new HttpError("worker_failed", `Cannot finish the answer: ${state}`);
}
