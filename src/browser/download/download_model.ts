/**
 * What is missing of a model, from its origin into its folder of the browser's storage.
 *
 * At any moment a page may be closed: the manifest says what belongs to the model, the files
 * themselves how far they are, and the next download goes on from there.
 *
 * @module
 */

import { DownloadError, type RetryPolicy } from "../../http/retries.ts";
import { TransferRate } from "../../http/transfer_rate.ts";
import type { StoreProgress } from "../storage/model_store.ts";
import { type Manifest, type ManifestFile, writeManifest } from "../storage/opfs_manifest.ts";
import { type ModelFolder, storedFile } from "../storage/stored_model.ts";
import { downloadFile } from "./download_file.ts";
import type { OpenedOrigin } from "./opened_origin.ts";

export interface ModelDownloadOptions extends ModelFolder {
  readonly origin: OpenedOrigin;
  readonly policy: RetryPolicy;
  /** Files fetched at once. */
  readonly transfers: number;
  /** Ends everything that is under way. */
  readonly ending: AbortController;
  readonly onProgress: (progress: StoreProgress) => void;
  /** Told how many bytes are to come. @throws when there is no room. */
  readonly checkRoom: (needed: number) => Promise<void>;
}

type News = Pick<StoreProgress, "phase" | "file" | "note">;

/** Milliseconds between two reports of progress. */
const INTERVAL = 100;

/**
 * Fetches what is missing.
 *
 * @throws {DownloadError} naming the file that cannot be had. What is here stays.
 */
export async function downloadModel(options: ModelDownloadOptions): Promise<void> {
  await new ModelDownload(options).run();
}

class ModelDownload {
  readonly #options: ModelDownloadOptions;
  readonly #rate = new TransferRate();
  readonly #here = new Map<string, number>();
  /** Bytes that came from the origin. */
  #fetched = 0;
  #manifest: Manifest;
  #writing: Promise<void> = Promise.resolve();
  #reported = Number.NEGATIVE_INFINITY;
  /** What is reported at the end of the interval, so that a transfer that stops is not behind. */
  #latest: News = { phase: "downloading" };
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: ModelDownloadOptions) {
    this.#options = options;
    this.#manifest = options.manifest;
  }

  async run(): Promise<void> {
    const wanted: ManifestFile[] = [];
    let missing = 0;
    for (const file of this.#manifest.files) {
      const length = await storedFile(this.#options, file.name).length();
      const isHere = file.isComplete && length === file.size;
      this.#here.set(file.name, isHere ? length : 0);
      missing += Math.max(0, file.size - length);
      if (!isHere) wanted.push({ ...file, isComplete: false });
    }
    await this.#options.checkRoom(missing);
    await this.#inParallel(wanted).finally(() => clearTimeout(this.#timer));
    this.#report({ phase: "complete" });
  }

  async #download(file: ManifestFile): Promise<void> {
    const { origin, policy, ending } = this.#options;
    const { name, commit } = this.#manifest;
    await downloadFile({
      origin,
      commit,
      file,
      stored: storedFile(this.#options, file.name),
      subject: `${file.name} of ${name}`,
      policy,
      signal: ending.signal,
      onChange: (changed) => this.#keep(changed),
      onPosition: (bytes, phase) => {
        const before = this.#here.get(file.name)!;
        if (phase === "downloading") this.#fetched += Math.max(0, bytes - before);
        this.#here.set(file.name, bytes);
        this.#tell({ phase, file: file.name });
      },
      onRetry: (note) => this.#report({ phase: "downloading", file: file.name, note }),
    });
  }

  /** One after another, as the manifest is written whole. */
  #keep(file: ManifestFile): Promise<void> {
    const files = this.#manifest.files.map((old) => (old.name === file.name ? file : old));
    this.#manifest = { ...this.#manifest, files };
    const manifest = this.#manifest;
    const written = this.#writing.then(() => writeManifest(this.#options.folder, manifest));
    this.#writing = written.catch(() => {});
    return written;
  }

  #tell(news: News): void {
    this.#latest = news;
    const wait = this.#reported + INTERVAL - performance.now();
    if (wait <= 0) this.#report(news);
    else this.#timer ??= setTimeout(() => this.#report(this.#latest), wait);
  }

  #report(news: News): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const now = performance.now();
    this.#reported = now;
    const done = [...this.#here.values()].reduce((sum, bytes) => sum + bytes, 0);
    const total = this.#manifest.files.reduce((sum, { size }) => sum + size, 0);
    this.#rate.add(now, this.#fetched);
    const rate = this.#rate.bytesPerSecond;
    this.#options.onProgress({
      ...news,
      done,
      total,
      ...(rate !== undefined && { bytesPerSecond: rate, secondsLeft: (total - done) / rate }),
    });
  }

  /** Few at a time. The first failure ends all, once all have stopped. */
  async #inParallel(files: readonly ManifestFile[]): Promise<void> {
    const { transfers, ending } = this.#options;
    const waiting = [...files];
    const worker = async () => {
      for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
        ending.signal.throwIfAborted();
        await this.#download(file);
      }
    };
    const fail = (error: unknown) => ending.abort(error);
    await Promise.all(Array.from({ length: transfers }, () => worker().catch(fail)));
    await this.#writing;
    ending.signal.throwIfAborted();
  }
}

/** Whether an origin is the one that a model was begun from. */
export function checkOrigin({ name, origin }: Manifest, { stored }: OpenedOrigin): void {
  const before = JSON.stringify(origin);
  const now = JSON.stringify(stored);
  if (before === now) return;
  const problem = `a model of this name is stored from elsewhere (${before}, not ${now})`;
  throw new DownloadError(name, `${problem}: delete it, or give another name`);
}
