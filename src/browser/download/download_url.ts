/**
 * A checkpoint folder on any HTTP server, as an origin of downloads: the files that it has, and the
 * bytes of one from any position on.
 *
 * A page sees little of another origin's answers. What is hidden is worked out from what is left:
 * Content-Length and Last-Modified are always visible, Content-Range and ETag often not.
 *
 * @module
 */

import type { FileBody, OpenOptions } from "../../checkpoint/hub_client.ts";
import {
  CONFIG_FILE,
  INDEX_FILE,
  SINGLE_FILE,
  shardNames,
  wantedFiles,
} from "../../checkpoint/model_files.ts";
import { type FileReply, FileRequests } from "../../http/file_requests.ts";
import { DownloadError, PassingError, withRetries } from "../../http/retries.ts";
import type { OriginFile, OriginOptions } from "./opened_origin.ts";
import { contentRange, isMissing, isPlainName, MISSING, TEXT_FILES } from "./url_source.ts";

export class UrlFolder {
  readonly #url: URL;
  readonly #options: OriginOptions;
  readonly #requests: FileRequests;
  /** The list of shards, which is wanted before the download and in it. */
  #index: Uint8Array | undefined;

  /** @param url With a slash at the end of its path. */
  constructor(url: URL, options: OriginOptions) {
    this.#url = url;
    this.#options = options;
    const { headers = {}, signal, idleTimeout } = options;
    const endpoint = `${url.origin}${url.pathname}`.replace(/\/$/, "");
    this.#requests = new FileRequests({ endpoint, headers, signal, idleTimeout, onPage: true });
  }

  /** Those of the usual files that are there. */
  async list(): Promise<readonly OriginFile[]> {
    // Alone, so that a server that is not there is waited for once.
    const config = await this.#probeAll([CONFIG_FILE]);
    const others = TEXT_FILES.filter((name) => name !== CONFIG_FILE);
    const found = [...config, ...(await this.#probeAll([...others, SINGLE_FILE]))];
    const index = found.find(({ name }) => name === INDEX_FILE);
    const hasSingle = found.some(({ name }) => name === SINGLE_FILE);
    let text = "";
    if (index !== undefined && !hasSingle) {
      this.#index = await this.#readWhole(index);
      text = new TextDecoder().decode(this.#index);
    }
    const shards = shardNames(text).filter((name) => isPlainName(name) && name !== SINGLE_FILE);
    const all = [...found, ...(await this.#probeAll(shards))];
    return wantedFiles(this.#url.href, all, async () => text);
  }

  async open(
    file: OriginFile,
    { position }: OpenOptions,
    use: (body: FileBody) => Promise<void>,
  ): Promise<void> {
    const kept = this.#index;
    if (file.name === INDEX_FILE && kept?.length === file.size && position === 0) {
      this.#index = undefined;
      const chunks = async function* () {
        yield kept;
      };
      return use({ start: 0, version: undefined, size: kept.length, chunks });
    }
    const request = {
      subject: this.#subject(file.name),
      path: this.#path(file.name),
      expected: [200, 206, 416],
      // Also from the start: what is asked for by range does not come compressed.
      headers: { range: `bytes=${position}-` },
    };
    await this.#requests.exchange(request, async (reply) => {
      const { headers } = reply;
      const { start, size } = extent(reply, position, file);
      await use({
        start,
        size,
        version: headers.get("etag") ?? headers.get("last-modified") ?? undefined,
        chunks: () => (reply.status === 416 ? nothing() : reply.chunks()),
      });
    });
  }

  async #probeAll(names: readonly string[]): Promise<readonly OriginFile[]> {
    const found = await Promise.all(names.map((name) => this.#probe(name)));
    return found.filter((file) => file !== undefined);
  }

  /** Undefined where the server has no such file. */
  #probe(name: string): Promise<OriginFile | undefined> {
    return this.#retried(name, () =>
      // Eight bytes, because some servers take 0-0 for the whole file.
      this.#ask(name, { headers: { range: "bytes=0-7" } }, async (reply) => {
        if (isMissing(reply)) return undefined;
        const length = reply.status === 200 ? reply.headers.get("content-length") : null;
        const size = length === null ? contentRange(reply)?.size : Number(length);
        return { name, size: size ?? (await this.#askSize(name)) };
      }),
    );
  }

  #askSize(name: string): Promise<number> {
    return this.#ask(name, { method: "HEAD" }, async ({ headers }) => {
      const length = headers.get("content-length");
      if (length !== null) return Number(length);
      throw new DownloadError(this.#subject(name), "the server does not tell its size");
    });
  }

  #readWhole(file: OriginFile): Promise<Uint8Array> {
    return this.#retried(file.name, async () => {
      const bytes = new Uint8Array(file.size);
      let length = 0;
      await this.open(file, { position: 0, version: undefined }, async (body) => {
        for await (const chunk of body.chunks()) {
          if (length + chunk.length > file.size) break;
          bytes.set(chunk, length);
          length += chunk.length;
        }
      });
      if (length === file.size) return bytes;
      throw new PassingError(`${length} of ${file.size} bytes came`);
    });
  }

  #ask<T>(
    name: string,
    {
      method = "GET",
      headers = {},
    }: Pick<Parameters<FileRequests["exchange"]>[0], "method" | "headers">,
    use: (reply: FileReply) => Promise<T>,
  ): Promise<T> {
    const expected = [200, 206, 416, ...MISSING];
    const subject = this.#subject(name);
    return this.#requests.exchange(
      { subject, path: this.#path(name), method, headers, expected },
      use,
    );
  }

  #retried<T>(name: string, work: () => Promise<T>): Promise<T> {
    const { policy, signal, onRetry } = this.#options;
    const subject = this.#subject(name);
    return withRetries(work, { subject, policy, signal, ...(onRetry && { onRetry }) });
  }

  #subject(name: string): string {
    return `${name} of ${this.#url.href}`;
  }

  #path(name: string): string {
    return `/${encodeURIComponent(name)}${this.#url.search}`;
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

/** Where the body begins, and the size of the whole file, as far as the answer tells. */
function extent(
  reply: FileReply,
  position: number,
  { size }: OriginFile,
): { readonly start: number; readonly size: number } {
  const range = contentRange(reply);
  const header = reply.headers.get("content-length");
  const length = header === null ? undefined : Number(header);
  switch (reply.status) {
    case 200:
      return { start: 0, size: length ?? size };
    case 416:
      // The file is shorter than it was, unless nothing of it was left to ask for.
      return { start: position, size: range?.size ?? Math.min(size, position) };
    default: {
      const start = range?.start ?? position;
      return { start, size: range?.size ?? (length === undefined ? size : start + length) };
    }
  }
}
