/**
 * The body of a decode node's answer, which goes on from a server where the node leaves: behind the
 * last event that the client has got.
 *
 * @module
 */
import { HttpError } from "../../http/error_response.ts";
import type { UpstreamAnswer, UpstreamBody } from "../worker/upstream.ts";
import { EventCutter, EventRecord, renamed } from "./answer_events.ts";
import { workerFailed } from "./node_answer.ts";

/** What ends an event, by the kind of an answer; other answers come as a whole. */
const SEPARATORS: readonly (readonly [type: string, separator: string])[] = [
  ["text/event-stream", "\n\n"],
  ["application/x-ndjson", "\n"],
];

/** The answer of another server, from its beginning. */
export interface OtherAnswer {
  readonly answer: UpstreamAnswer;
  readonly first: Uint8Array | undefined;
  /** To be called once, when it is over. @param isBroken Undefined where its client has left. */
  readonly end: (isBroken?: boolean) => void;
}

export interface ContinuedOptions {
  /** Whether the request has one answer, whose events come in one order. */
  readonly isSingle: () => boolean;
  /** Asks a server for the same answer. */
  readonly goOn: () => Promise<OtherAnswer>;
}

/** The same answer, with a body that goes on. */
export function continued(answer: UpstreamAnswer, options: ContinuedOptions): UpstreamAnswer {
  const type = contentType(answer);
  const separator = SEPARATORS.find(([start]) => type.startsWith(start))?.[1];
  if (answer.status !== 200 || separator === undefined) return answer;
  return { ...answer, body: new ContinuedBody(answer, separator, options) };
}

function contentType({ headers }: UpstreamAnswer): string {
  return headers.find(([name]) => name === "content-type")?.[1] ?? "";
}

class ContinuedBody implements UpstreamBody {
  readonly #answer: UpstreamAnswer;
  readonly #separator: string;
  readonly #options: ContinuedOptions;
  readonly #sent = new EventRecord();
  #cutter: EventCutter;
  #other: OtherAnswer | undefined;
  /** Its first bytes, until they are taken. */
  #first: Uint8Array | undefined;
  /** Events of the other answer so far, until they are those that were sent. */
  #skipped = new EventRecord();
  #isOver = false;

  constructor(answer: UpstreamAnswer, separator: string, options: ContinuedOptions) {
    this.#answer = answer;
    this.#separator = separator;
    this.#options = options;
    this.#cutter = new EventCutter(separator);
  }

  /** Whole events only: what is behind the last of them may never come. */
  async read(): Promise<Uint8Array | undefined> {
    while (this.#other === undefined) {
      let events: readonly string[];
      try {
        const bytes = await this.#answer.body.read();
        if (bytes === undefined) return this.#end();
        events = this.#cutter.push(bytes);
      } catch (error) {
        this.#answer.body.cancel();
        await this.#goOn(error);
        break;
      }
      for (const event of events) this.#sent.add(event);
      if (events.length > 0) return new TextEncoder().encode(events.join(""));
    }
    return this.#readOther();
  }

  cancel(): void {
    this.#isOver = true;
    (this.#other?.answer ?? this.#answer).body.cancel();
    this.#other?.end();
  }

  #end(): Uint8Array | undefined {
    const { rest } = this.#cutter;
    this.#cutter = new EventCutter(this.#separator);
    return rest === "" ? undefined : new TextEncoder().encode(rest);
  }

  /** @throws `error` where the answer cannot go on. */
  async #goOn(error: unknown): Promise<void> {
    const isNodes = error instanceof HttpError && error.code === "worker_failed";
    // Of which the client has got nothing, the request is sent again as every other one is.
    if (!isNodes || this.#isOver || this.#sent.count === 0 || !this.#options.isSingle())
      throw error;
    const other = await this.#options.goOn();
    if (this.#isOver) {
      other.answer.body.cancel();
      other.end();
      throw error;
    }
    const { answer } = other;
    if (answer.status !== 200 || contentType(answer) !== contentType(this.#answer)) {
      answer.body.cancel();
      other.end();
      throw workerFailed(`another server answered ${answer.status}`);
    }
    this.#other = other;
    this.#first = other.first;
    this.#cutter = new EventCutter(this.#separator);
  }

  async #readOther(): Promise<Uint8Array | undefined> {
    const { answer, end } = this.#other!;
    for (;;) {
      let bytes: Uint8Array | undefined;
      let isBroken: true | undefined = true;
      try {
        bytes = this.#first ?? (await answer.body.read());
        this.#first = undefined;
        // That it is not what the node began with may be the node's fault.
        isBroken = undefined;
        if (bytes === undefined && this.#skipped.count < this.#sent.count) {
          throw workerFailed("another server's answer ends earlier");
        }
        const events = bytes === undefined ? [] : this.#behindSent(this.#cutter.push(bytes));
        if (events.length > 0) {
          const texts = events.map((event) =>
            renamed(event, this.#skipped.names, this.#sent.names),
          );
          return new TextEncoder().encode(texts.join(""));
        }
      } catch (error) {
        answer.body.cancel();
        end(isBroken);
        throw error;
      }
      if (bytes !== undefined) continue;
      end(false);
      return this.#end();
    }
  }

  /** @throws {HttpError} where what was sent is not what the other answer begins with. */
  #behindSent(events: readonly string[]): readonly string[] {
    const missing = Math.min(this.#sent.count - this.#skipped.count, events.length);
    for (const event of events.slice(0, missing)) this.#skipped.add(event);
    if (missing > 0 && this.#skipped.count === this.#sent.count) {
      if (this.#skipped.digest === this.#sent.digest) return events.slice(missing);
      throw workerFailed("another server's answer begins otherwise");
    }
    return events.slice(missing);
  }
}
