/**
 * What a client has got of a stream of events, so that another server's stream of the same answer can
 * go on behind it.
 *
 * Both servers make one event of each token, so the events of one stream are those of the other, but
 * for names and times. What has been sent is counted and digested; as many events of the other stream
 * are left out, once their digest is the same.
 *
 * @module
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { MAX_NODE_EVENT } from "./limits.ts";
import { workerFailed } from "./node_answer.ts";

/** Fields that name an answer or tell a time, by which two streams of one answer differ. */
const NAMES: readonly string[] = ["id", "item_id", "response_id", "created", "created_at"];
const TIMES = /^(cached_tokens|e2e_latency|completed_at|cache_\w+_input_tokens|\w+_duration)$/;
/** Characters of a name that is written in place of another one: shorter ones are no random names. */
const SHORTEST_NAME = 8;
/** Characters of a name at most: longer values are not looked at as names. */
const LONGEST_NAME = 256;
/** Different names in one stream at most. */
const MOST_NAMES = 64;

/** Cuts bytes into events, each with the separator behind it. */
export class EventCutter {
  readonly #separator: string;
  #rest = "";
  readonly #decoder = new TextDecoder();

  /** @param separator What ends an event. */
  constructor(separator: string) {
    this.#separator = separator;
  }

  /** What has come of an event that is not whole. */
  get rest(): string {
    return this.#rest;
  }

  /** @throws {HttpError} `worker_failed` for an event that is too long. */
  push(bytes: Uint8Array): readonly string[] {
    this.#rest += this.#decoder.decode(bytes, { stream: true });
    const pieces = this.#rest.split(this.#separator);
    this.#rest = pieces.pop()!;
    if (this.#rest.length > MAX_NODE_EVENT) {
      this.#rest = "";
      throw workerFailed("an event is too long");
    }
    return pieces.map((piece) => piece + this.#separator);
  }
}

type Name = string | number;

/** Events so far, as far as those of another stream must be like them. */
export class EventRecord {
  count = 0;
  readonly #hash = sha256.create();
  /** Values of names, in the order in which they came. */
  readonly names: Name[] = [];

  add(event: string): void {
    this.count += 1;
    this.#hash.update(utf8ToBytes(`${event.length < 1e6 ? this.#bare(event) : event}\u0000`));
  }

  get digest(): string {
    return bytesToHex(this.#hash.clone().digest());
  }

  #bare(event: string): string {
    return event
      .split("\n")
      .map((line) => {
        const start = line.indexOf("{");
        if (start < 0) return line;
        try {
          return (
            line.slice(0, start) + JSON.stringify(JSON.parse(line.slice(start), this.#reviver))
          );
        } catch {
          return line;
        }
      })
      .join("\n");
  }

  readonly #reviver = (key: string, value: unknown): unknown => {
    if (TIMES.test(key)) return 0;
    if (!NAMES.includes(key) || (typeof value !== "string" && typeof value !== "number")) {
      return value;
    }
    if (String(value).length > LONGEST_NAME) return value;
    let at = this.names.indexOf(value);
    if (at < 0 && this.names.length < MOST_NAMES) at = this.names.push(value) - 1;
    return at;
  };
}

/** Writes names of one stream in place of those of another one. */
export function renamed(event: string, from: readonly Name[], to: readonly Name[]): string {
  let text = event;
  for (const [i, name] of from.entries()) {
    const other = to[i];
    if (typeof other !== typeof name || other === name) continue;
    if (String(name).length < SHORTEST_NAME) continue;
    // As it is: a text of a page may have what stands for other text.
    if (typeof name === "string")
      text = text.replaceAll(JSON.stringify(name), () => JSON.stringify(other));
    else
      text = text.replaceAll(`":${name},`, `":${other},`).replaceAll(`":${name}}`, `":${other}}`);
  }
  return text;
}
