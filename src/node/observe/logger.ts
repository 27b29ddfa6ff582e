/**
 * Lines of the server's log, as text or as one JSON object each.
 *
 * @module
 */
export const LOG_LEVELS = ["debug", "info", "warning", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** `sglang` is text with the lines that scripts for such servers wait for. */
export const LOG_FORMATS = ["text", "json", "sglang"] as const;
export type LogFormat = (typeof LOG_FORMATS)[number];

/** The part of a stream that a log needs: `process.stderr`, or a list in a test. */
export interface Output {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  /** Width of the terminal. */
  readonly columns?: number;
}

export interface LoggerOptions {
  /** Takes all lines: the standard output is for what a command answers. */
  readonly stderr: Output;
  /** What is less than this is left out. Default info. */
  readonly level?: LogLevel;
  /** Default text. */
  readonly format?: LogFormat;
  /** The rank whose lines they are, where several write one log. Default: none is told. */
  readonly rank?: number;
  /** The replica whose lines they are, as for ranks. */
  readonly replica?: number;
}

export class Logger {
  readonly #options: LoggerOptions;
  readonly #isJson: boolean;

  constructor(options: LoggerOptions) {
    this.#options = options;
    this.#isJson = options.format === "json";
  }

  /** The same log, with lines of a rank. */
  ofRank(rank: number): Logger {
    return new Logger({ ...this.#options, rank });
  }

  /** The same log, with lines of a replica. */
  ofReplica(replica: number): Logger {
    return new Logger({ ...this.#options, replica });
  }

  /** A terminal on which progress may be drawn. */
  get terminal(): Output | undefined {
    const { stderr, rank, replica } = this.#options;
    const isWhole = rank === undefined && replica === undefined;
    const draws = !this.#isJson && isWhole && this.writes("info");
    return stderr.isTTY && draws ? stderr : undefined;
  }

  /** Whether lines of that level are written: finding out what to say may take time. */
  writes(level: LogLevel): boolean {
    const { level: least = "info" } = this.#options;
    return LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(least);
  }

  /** A line of the start, which in text has no time. */
  line(level: LogLevel, text: string): void {
    if (!this.writes(level)) return;
    this.#write(this.#isJson ? this.#json(level, { message: text }) : this.#named(text));
  }

  /**
   * Something that happened.
   *
   * @param fields What a program reads instead of the text.
   */
  event(level: LogLevel, text: string, fields: object = { message: text }): void {
    if (!this.writes(level)) return;
    const line = () => `[${timeOfDay(new Date())}] ${this.#named(text)}`;
    this.#write(this.#isJson ? this.#json(level, fields) : line());
  }

  /**
   * An error that no request has caused, with where it comes from.
   *
   * @param requestId The `x-request-id` of the answer that it spoils, if it spoils one.
   */
  error(error: unknown, requestId?: string): void {
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    if (requestId === undefined) this.event("error", message);
    else
      this.event("error", `Request ${requestId}: ${message}`, { message, x_request_id: requestId });
  }

  #named(text: string): string {
    const { rank, replica } = this.#options;
    const names = [
      replica === undefined ? "" : `DP${replica} `,
      rank === undefined ? "" : `TP${rank} `,
    ];
    return names.join("") + text;
  }

  #json(level: LogLevel, fields: object): string {
    const { rank, replica } = this.#options;
    const own = {
      ...(replica !== undefined && { dp_rank: replica }),
      ...(rank !== undefined && { tp_rank: rank }),
    };
    return JSON.stringify({ time: new Date().toISOString(), level, ...own, ...fields });
  }

  #write(line: string): void {
    this.#options.stderr.write(`${line}\n`);
  }
}

/** Local time, as `2026-01-31 23:59:59`. */
function timeOfDay(time: Date): string {
  const two = (value: number) => String(value).padStart(2, "0");
  const date = [time.getFullYear(), two(time.getMonth() + 1), two(time.getDate())].join("-");
  return `${date} ${[time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(":")}`;
}
