/**
 * A model from a hub into the local cache.
 *
 * Every file is checked before it becomes visible, and a revision stands for a new commit only when
 * all its files are here. What is cut short goes on where it was, the next time.
 *
 * @module
 */

import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import {
  HubClient,
  type HubFile,
  type ListedFile,
  type Listing,
} from "../../checkpoint/hub_client.ts";
import { wantedFiles } from "../../checkpoint/model_files.ts";
import { DEFAULT_RETRY_POLICY, DownloadError, type RetryPolicy } from "../../http/retries.ts";
import { checkSpace, type FreeBytes } from "./disk_space.ts";
import { transferFile } from "./file_transfer.ts";
import { CachedModel, fileSize, type MakeLink } from "./hub_cache.ts";
import { withLock } from "./hub_lock.ts";
import { type Environment, hubSettings, readToken } from "./hub_settings.ts";
import { readModelId } from "./resolve_model.ts";

export interface DownloadOptions {
  /** Branch, tag or commit. Default main. */
  readonly revision?: string | undefined;
  /** Address of the hub. Default the environment's. */
  readonly endpoint?: string | undefined;
  /** Default this process's. */
  readonly env?: Environment;
  /** Ends the download, which a later one goes on with. */
  readonly signal?: AbortSignal;
  readonly report?: DownloadReport;
  /** Files fetched at once. Default 4. */
  readonly transfers?: number;
  readonly policy?: RetryPolicy;
  /** Milliseconds without a byte after which a connection is given up. Default 30000. */
  readonly idleTimeout?: number;
  readonly makeLink?: MakeLink;
  readonly freeBytes?: FreeBytes;
}

export interface DownloadReport {
  /** Bytes of all files, and how many of them are here. */
  progress(done: number, total: number): void;
  /** One sentence about something that takes time. */
  note(sentence: string): void;
}

export interface DownloadedModel {
  readonly folder: string;
  readonly commit: string;
  readonly files: number;
  readonly bytes: number;
}

const DEFAULT_TRANSFERS = 4;
const DEFAULT_IDLE_TIMEOUT = 30_000;

const SILENT: DownloadReport = { progress: () => {}, note: () => {} };

/**
 * Downloads what is missing of a model.
 *
 * @param model Its id.
 * @throws {DownloadError} naming the file when something cannot be had. What is here stays.
 * @throws {OptionError} when an option or a variable does not fit.
 */
export async function downloadModel(
  model: string,
  options: DownloadOptions = {},
): Promise<DownloadedModel> {
  const env = options.env ?? process.env;
  const { id, revision } = readModelId(model, options.revision);
  const { cacheFolder, endpoint, offline } = hubSettings(env, options.endpoint);
  if (offline) throw new DownloadError(id, "HF_HUB_OFFLINE forbids the network");
  const failing = new AbortController();
  const signal = AbortSignal.any([failing.signal, ...(options.signal ? [options.signal] : [])]);
  const { report = SILENT, policy = DEFAULT_RETRY_POLICY } = options;
  const token = await readToken(env);
  const client = new HubClient({
    endpoint,
    ...(token !== undefined && { headers: { authorization: `Bearer ${token}` } }),
    tokenPlace: "HF_TOKEN",
    signal,
    idleTimeout: options.idleTimeout ?? DEFAULT_IDLE_TIMEOUT,
    policy,
    onRetry: (sentence) => report.note(sentence),
  });
  const listing = await client.list(id, revision);
  const cached = new CachedModel(cacheFolder, id, options.makeLink);
  const onWait = () => report.note(`Waiting for another download of ${id}`);
  const fail = (error: unknown) => failing.abort(error);
  return withLock(cached.lockPath, { signal, onWait, onLost: fail }, async () => {
    const context = { ...options, client, listing, cached, policy, report, signal, fail };
    return new Download(context).run(revision);
  });
}

interface DownloadContext extends DownloadOptions {
  readonly client: HubClient;
  readonly listing: Listing;
  readonly cached: CachedModel;
  readonly policy: RetryPolicy;
  readonly report: DownloadReport;
  readonly signal: AbortSignal;
  /** Ends everything that is under way. */
  readonly fail: (error: unknown) => void;
}

class Download {
  readonly #context: DownloadContext;
  /** Bytes that are here, by file. */
  readonly #here = new Map<string, number>();
  #total = 0;

  constructor(context: DownloadContext) {
    this.#context = context;
  }

  async run(revision: string): Promise<DownloadedModel> {
    const { listing, cached } = this.#context;
    const { commit, id } = listing;
    const wanted = await wantedFiles(id, listing.files, (index) => this.#readIndex(index));
    const files = await this.#describe(wanted);
    await this.#count(files);
    // A revision that is known already goes on to stand for what is complete, until this is.
    if ((await cached.commitOf(revision)) === undefined) await cached.writeRef(revision, commit);
    await this.#fetch(files);
    await cached.writeRef(revision, commit);
    const folder = cached.snapshotPath(commit);
    return { folder, commit, files: files.length, bytes: sum(files) };
  }

  async #readIndex(index: ListedFile): Promise<string> {
    const { listing, cached } = this.#context;
    await this.#fetch(await this.#describe([index]));
    return readFile(join(cached.snapshotPath(listing.commit), index.name), "utf8");
  }

  async #describe(files: readonly ListedFile[]): Promise<readonly HubFile[]> {
    const { client, listing } = this.#context;
    const described = new Map<string, HubFile>();
    await this.#inParallel(files, async (file) => {
      described.set(file.name, await client.describe(listing, file));
    });
    return files.map(({ name }) => described.get(name)!);
  }

  async #count(files: readonly HubFile[]): Promise<void> {
    const { cached, listing, report, freeBytes } = this.#context;
    for (const file of files) this.#here.set(file.name, await this.#bytesHere(file));
    this.#total = sum(files);
    report.progress(this.#done, this.#total);
    await checkSpace(listing.id, cached.folder, this.#total - this.#done, freeBytes);
  }

  async #fetch(files: readonly HubFile[]): Promise<void> {
    const byDigest = new Map<string, HubFile[]>();
    for (const file of files) {
      byDigest.set(file.digest, [...(byDigest.get(file.digest) ?? []), file]);
    }
    await this.#inParallel([...byDigest.values()], (same) => this.#fetchBlob(same));
  }

  /** @param same Files with the same bytes. */
  async #fetchBlob(same: readonly HubFile[]): Promise<void> {
    const { listing, cached } = this.#context;
    const { commit } = listing;
    const missing: HubFile[] = [];
    for (const file of same) {
      if ((await cached.sizeOf(commit, file.name)) !== file.size) missing.push(file);
    }
    const last = missing.at(-1);
    if (last === undefined) return;
    const { size, digest } = last;
    const had = (await fileSize(cached.blobPath(digest))) === size;
    if (!had) await this.#transfer(last);
    for (const file of missing) {
      await cached.publish({ commit, file: file.name, etag: digest }, !had && file === last);
      this.#moveTo(file, size);
    }
    // Left by another program whose download this one has overtaken.
    await rm(cached.partialPath(digest), { force: true });
  }

  async #transfer(file: HubFile): Promise<void> {
    const { client, listing, cached, policy, signal, report } = this.#context;
    await transferFile({
      client,
      listing,
      file,
      path: cached.blobPath(file.digest),
      partialPath: cached.partialPath(file.digest),
      policy,
      signal,
      onPosition: (bytes) => this.#moveTo(file, bytes),
      onRetry: (sentence) => report.note(sentence),
    });
  }

  #moveTo(file: HubFile, bytes: number): void {
    this.#here.set(file.name, bytes);
    if (this.#total > 0) this.#context.report.progress(this.#done, this.#total);
  }

  async #bytesHere({ name, size, digest }: HubFile): Promise<number> {
    const { cached, listing } = this.#context;
    if ((await cached.sizeOf(listing.commit, name)) === size) return size;
    if ((await fileSize(cached.blobPath(digest))) === size) return size;
    return Math.min(await cached.partialSize(digest), size);
  }

  get #done(): number {
    return [...this.#here.values()].reduce((total, bytes) => total + bytes, 0);
  }

  /** Calls `work` for every item, few at a time. The first failure ends all. */
  async #inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
    const { transfers = DEFAULT_TRANSFERS, signal, fail } = this.#context;
    const waiting = [...items];
    const worker = async () => {
      for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) {
        signal.throwIfAborted();
        await work(item);
      }
    };
    const workers = Array.from({ length: transfers }, () => worker().catch(fail));
    await Promise.all(workers);
    signal.throwIfAborted();
  }
}

function sum(files: readonly HubFile[]): number {
  return files.reduce((total, { size }) => total + size, 0);
}
