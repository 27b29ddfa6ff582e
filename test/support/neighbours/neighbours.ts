/**
 * A good client beside hostile ones, over real sockets.
 *
 * @module
 */
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";

/** What a hostile connection does once it has sent everything. */
export type Ending =
  /** Reads until the server ends its side. */
  | "read"
  | "leave"
  | "leave at the first bytes"
  | "close one half"
  /** Reads, and stays until the campaign is over. */
  | "stay"
  | "never read";

export interface Piece {
  readonly bytes: string | Uint8Array;
  /** How often it is sent. Default once. */
  readonly times?: number;
}

export interface Connection {
  readonly send: readonly Piece[];
  readonly ending: Ending;
}

/** One kind of hostile clients. */
export interface Kind {
  readonly name: string;
  readonly connections: readonly Connection[];
  /** Whether it is left to the long campaign. Default false. */
  readonly isLong?: boolean;
  /** Connections that do their harm at the same time; those that stay all do. Default 8. */
  readonly atOnce?: number;
}

export interface Script {
  readonly connections: readonly Connection[];
  readonly atOnce: number;
  readonly chat: { readonly path: string; readonly body: string };
  /** Chats of the good client at least. */
  readonly chats: number;
}

interface Answer {
  readonly status: number | undefined;
  readonly text: string;
}

export interface Report {
  /** Of the good client, while the others did harm. */
  readonly answers: readonly Answer[];
  /** That those answers took together. */
  readonly seconds: number;
  /** Of the good client, after them. */
  readonly after: Answer;
  /** Statuses of `/health` meanwhile; undefined for a broken connection. */
  readonly health: readonly (number | undefined)[];
  /** How often hostile connections were answered with each status; "none" for no answer. */
  readonly statuses: Readonly<Record<string, number>>;
  /** How the first answer of each status begins. */
  readonly samples: Readonly<Record<string, string>>;
}

const DRIVER = fileURLToPath(new URL("./driver.mjs", import.meta.url));

const CHAT = {
  messages: [
    { role: "system", content: "You are brief." },
    { role: "user", content: "Count to ten." },
  ],
  stream: true,
  temperature: 0.8,
  seed: 11,
  ignore_eos: true,
  logprobs: true,
  top_logprobs: 2,
};

/** The clients of one server. */
export class Neighbours {
  readonly #worker: Worker;
  readonly #chat: Script["chat"];

  /** @param tokens Of each answer to the good client. */
  constructor(url: string, tokens: number) {
    this.#worker = new Worker(DRIVER, { workerData: { port: Number(new URL(url).port) } });
    const body = JSON.stringify({ ...CHAT, max_tokens: tokens });
    this.#chat = { path: "/v1/chat/completions", body };
  }

  /** The good client beside the hostile ones; without a kind, alone. */
  async run(kind: Kind | undefined, chats = 1): Promise<Report> {
    const { connections = [], atOnce = 8 } = kind ?? {};
    this.#worker.postMessage({ connections, atOnce, chats, chat: this.#chat } satisfies Script);
    const [report] = (await once(this.#worker, "message")) as [Report];
    return report;
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}

/** What a streamed chat tells, but for its id and times. */
export function toldBy({ status, text }: Answer): readonly unknown[] {
  const lines = text.split("\n\n").filter((line) => line.startsWith("data: {"));
  const events = lines.map((line) => {
    const { choices } = JSON.parse(line.slice("data: ".length)) as { choices: unknown };
    return choices;
  });
  return [status, text.endsWith("data: [DONE]\n\n"), ...events];
}
