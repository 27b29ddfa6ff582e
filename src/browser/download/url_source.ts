/**
 * A checkpoint folder on any HTTP server as a `WeightSource`: weights by range requests, the small
 * text files whole.
 *
 * A server cannot be asked what it has, so the usual names are tried. Nothing here needs more than
 * `fetch`, so that it works on a page, in a worker and in Node.
 *
 * @module
 */

import { BlockReader } from "../../checkpoint/block_reader.ts";
import { readOptionalText } from "../../checkpoint/json_file.ts";
import { memorySource } from "../../checkpoint/memory_source.ts";
import { CONFIG_FILE, INDEX_FILE, SINGLE_FILE, shardNames } from "../../checkpoint/model_files.ts";
import type { SourceFile, WeightSource } from "../../checkpoint/source.ts";
import { CheckpointError } from "../../errors.ts";

export interface UrlSourceOptions {
  /** Sent with every request, such as `authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Ends all requests, those of later reads too. */
  readonly signal?: AbortSignal;
}

/** Small files asked for by name. */
export const TEXT_FILES = [
  CONFIG_FILE,
  "tokenizer.json",
  "tokenizer_config.json",
  "generation_config.json",
  "chat_template.jinja",
  "chat_template.json",
  // Of models that read images.
  ...["preprocessor_config.json", "processor_config.json"],
  INDEX_FILE,
];

/** What servers answer where there is no file; object stores that list nothing say 403. */
export const MISSING: readonly number[] = [403, 404, 410];

/** Shards asked for their size at once. */
const PROBES = 8;

/**
 * Opens the checkpoint folder at `baseUrl`: fetches its text files and asks for the sizes of its
 * weights. Files that are not there are left out of the list.
 *
 * @param baseUrl Address of the folder; a relative one counts from the page or worker.
 * @throws {CheckpointError} naming the file when the server cannot be reached, fails, has no
 * config.json, or has weights and no support for range requests.
 * @throws {DOMException} named AbortError when `signal` is aborted.
 */
export async function urlSource(
  baseUrl: string | URL,
  options: UrlSourceOptions = {},
): Promise<WeightSource> {
  const folder = new RemoteFolder(baseUrl, options);
  await folder.open();
  return folder;
}

class RemoteFolder implements WeightSource {
  readonly name: string;
  readonly #base: URL;
  readonly #options: UrlSourceOptions;
  /** The text files, once they are here. */
  #texts: WeightSource = memorySource({});
  /** Sizes of the files that are read in ranges. */
  readonly #weights = new Map<string, number>();
  readonly #blocks = new BlockReader((...range) => this.#fetchRange(...range));

  constructor(baseUrl: string | URL, options: UrlSourceOptions) {
    this.#base = folderUrl(baseUrl);
    this.name = this.#base.href;
    this.#options = options;
  }

  async open(): Promise<void> {
    const texts: Record<string, Uint8Array> = {};
    await inParallel(TEXT_FILES, async (file) => {
      const bytes = await this.#fetchWhole(file);
      if (bytes !== undefined) texts[file] = bytes;
    });
    this.#texts = memorySource(texts);
    const sizes = new Map<string, number>();
    const candidates = [SINGLE_FILE, ...(await this.#shards())];
    await inParallel(candidates, async (file) => {
      const size = await this.#probe(file);
      if (size !== undefined) sizes.set(file, size);
    });
    for (const file of candidates) {
      const size = sizes.get(file);
      if (size !== undefined) this.#weights.set(file, size);
    }
  }

  async list(): Promise<readonly SourceFile[]> {
    const weights = [...this.#weights].map(([name, size]) => ({ name, size }));
    return [...(await this.#texts.list()), ...weights];
  }

  async read(file: string, offset: number, length: number): Promise<Uint8Array<ArrayBuffer>> {
    const size = this.#weights.get(file);
    if (size === undefined) return this.#texts.read(file, offset, length);
    if (offset + length > size) {
      const wanted = `bytes ${offset} to ${offset + length} are needed`;
      throw new CheckpointError(file, `it ends at byte ${size}, ${wanted}`);
    }
    if (length === 0) return new Uint8Array(0);
    return this.#blocks.read(file, { offset, length, size });
  }

  /** A range of a file of weights, by a request of its own. */
  async #fetchRange(
    file: string,
    offset: number,
    length: number,
  ): Promise<Uint8Array<ArrayBuffer>> {
    const size = this.#weights.get(file)!;
    const response = await this.#request(file, {
      range: `bytes=${offset}-${offset + length - 1}`,
    });
    if (response.status !== 206) await refuse(file, response);
    const sent = contentRange(response);
    if (sent !== undefined && (sent.start !== offset || (sent.size ?? size) !== size)) {
      await response.body?.cancel();
      const found = `${response.headers.get("content-range")} came for ${offset} to ${offset + length} of ${size}`;
      throw new CheckpointError(file, `the server's file is not the one that was opened: ${found}`);
    }
    return this.#body(file, response, length);
  }

  /** The shards that the index names. What is wrong with an index is for its reader to say. */
  async #shards(): Promise<readonly string[]> {
    const names = shardNames((await readOptionalText(this.#texts, INDEX_FILE)) ?? "");
    const strange = names.find((name) => !isPlainName(name));
    if (strange !== undefined) {
      throw new CheckpointError(strange, "its name is not a plain file name");
    }
    return names.filter((name) => name !== SINGLE_FILE);
  }

  /** A small file's bytes, or undefined when the server has none. */
  async #fetchWhole(file: string): Promise<Uint8Array | undefined> {
    const response = await this.#request(file);
    if (isMissing(response)) {
      await response.body?.cancel();
      if (file !== CONFIG_FILE) return undefined;
      throw new CheckpointError(file, `${this.name} has no such file (${response.status})`);
    }
    if (response.status !== 200) await refuse(file, response);
    return this.#body(file, response);
  }

  /** Bytes of a file of weights, or undefined when the server has none. */
  async #probe(file: string): Promise<number | undefined> {
    // Eight bytes, because some servers take 0-0 for the whole file.
    const response = await this.#request(file, { range: "bytes=0-7" });
    await response.body?.cancel();
    if (isMissing(response)) return undefined;
    if (response.status !== 206 && response.status !== 416) await refuse(file, response);
    const size = contentRange(response)?.size;
    if (size !== undefined) return size;
    // Another origin's server may hide Content-Range from a page, but not Content-Length.
    const head = await this.#request(file, {}, "HEAD");
    if (!head.ok) await refuse(file, head);
    const length = head.headers.get("content-length");
    if (length === null) throw new CheckpointError(file, "the server does not tell its size");
    return Number(length);
  }

  async #request(
    file: string,
    headers: Readonly<Record<string, string>> = {},
    method = "GET",
  ): Promise<Response> {
    const url = new URL(encodeURIComponent(file), this.#base);
    url.search = this.#base.search;
    const { signal } = this.#options;
    try {
      return await fetch(url, {
        method,
        headers: { ...this.#options.headers, ...headers },
        ...(signal && { signal }),
      });
    } catch (cause) {
      return this.#fail(file, `${url.origin} cannot be reached`, cause);
    }
  }

  /** The whole body, which has to have `length` bytes where that is given. */
  async #body(file: string, response: Response, length?: number): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = await response
      .arrayBuffer()
      .catch((cause: unknown) => this.#fail(file, "the transfer broke off", cause));
    if (length !== undefined && bytes.byteLength !== length) {
      const wanted = `${length} are needed`;
      throw new CheckpointError(file, `the server sent ${bytes.byteLength} bytes, ${wanted}`);
    }
    return new Uint8Array(bytes);
  }

  #fail(file: string, problem: string, cause: unknown): never {
    if (this.#options.signal?.aborted) throw this.#options.signal.reason;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new CheckpointError(file, `${problem} (${reason})`, undefined, { cause });
  }
}

/** Whether a name from an index stays inside its folder. */
export function isPlainName(name: string): boolean {
  return !/[/\\]|^\.{0,2}$/.test(name);
}

/** Address of the folder, with a slash at its end; a relative one counts from the page or worker. */
export function folderUrl(address: string | URL): URL {
  const url = new URL(address, globalThis.location?.href);
  if (!url.pathname.endsWith("/")) url.pathname += "/";
  return url;
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
}

/** A page in place of a file is what servers of single-page applications send for "not found". */
export function isMissing({ status, headers }: Answer): boolean {
  return MISSING.includes(status) || (headers.get("content-type") ?? "").startsWith("text/html");
}

async function refuse(file: string, response: Response): Promise<never> {
  await response.body?.cancel();
  const { status, statusText } = response;
  const ignored = "the server ignores range requests, without which weights cannot be read";
  throw new CheckpointError(
    file,
    status === 200 ? ignored : `the server answers ${status} ${statusText}`.trimEnd(),
  );
}

/** What the header Content-Range says; undefined where there is none or a page may not see it. */
export function contentRange({
  headers,
}: Pick<Answer, "headers">): { start?: number; size?: number } | undefined {
  const match = /^bytes (?:(\d+)-\d+|\*)\/(\d+|\*)$/.exec(headers.get("content-range") ?? "");
  if (match === null) return undefined;
  const [, start, size] = match;
  return {
    ...(start !== undefined && { start: Number(start) }),
    ...(size !== "*" && { size: Number(size) }),
  };
}

/** Calls `work` for every item, few at a time. The first failure is thrown once all have stopped. */
async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const waiting = [...items];
  const worker = async () => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await work(item);
  };
  const results = await Promise.allSettled(Array.from({ length: PROBES }, worker));
  const failed = results.find((result) => result.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}
