/**
 * Models in the browser's own storage: fetched once, checked, and read from there ever after.
 *
 * A model is a folder with its files in parts and a manifest. Works on a page and in a worker, and
 * needs no cross-origin isolation. Tabs of one origin share the models: what one tab adds the other
 * tabs see, and none deletes what another reads.
 *
 * @module
 */

import type { WeightSource } from "../../checkpoint/source.ts";
import { CheckpointError, InvalidRequestError } from "../../errors.ts";
import { DEFAULT_RETRY_POLICY } from "../../http/retries.ts";
import { checkOrigin, downloadModel } from "../download/download_model.ts";
import { type ModelOrigin, openOrigin } from "../download/download_origin.ts";
import type { OpenedOrigin } from "../download/opened_origin.ts";
import type {
  AddOptions,
  ModelStore,
  StorageUsage,
  StoredModel,
  StoreProgress,
  VerifyOptions,
} from "./model_store.ts";
import { isNotFound, type StorageFolder } from "./opfs_file.ts";
import { browserLocks, type Locks } from "./opfs_locks.ts";
import { type Manifest, readManifest, writeManifest } from "./opfs_manifest.ts";
import { isQuotaError, StorageError, StorageFullError } from "./storage_error.ts";
import {
  type ModelFolder,
  missingBytes,
  StoredSource,
  totalBytes,
  verifyModel,
} from "./stored_model.ts";

export interface ModelStoreOptions {
  /** Holds a folder for each model. Default: one in the browser's own storage. */
  readonly folder?: StorageFolder;
  readonly locks?: Locks;
  readonly quota?: Pick<StorageManager, "estimate" | "persist" | "persisted">;
  /** Bytes of a part of a stored file. Default 32 MiB. */
  readonly partBytes?: number;
}

const FOLDER = "wisp-models";
const DEFAULT_PART_BYTES = 32 * 2 ** 20;
const DEFAULT_TRANSFERS = 4;
const DEFAULT_IDLE_TIMEOUT = 30_000;
/** Characters that any file system takes in one name. */
const LONGEST_FOLDER = 200;

/**
 * @throws {StorageError} when this browser or page has no storage of its own.
 * @throws {InvalidRequestError} naming an option that is out of range.
 */
export async function openModelStore(options: ModelStoreOptions = {}): Promise<ModelStore> {
  const partBytes = requireCount("partBytes", options.partBytes ?? DEFAULT_PART_BYTES);
  const folder = options.folder ?? (await browserFolder());
  const quota = options.quota ?? navigator.storage;
  const locks = options.locks ?? browserLocks();
  return new BrowserModelStore({ folder, quota, locks, partBytes });
}

async function browserFolder(): Promise<StorageFolder> {
  const { storage } = navigator as { readonly storage?: Partial<StorageManager> };
  const action = "open the browser's file storage";
  if (storage?.getDirectory === undefined) {
    throw new StorageError(action, "this browser has none, or the page is not served by https");
  }
  try {
    const root = await storage.getDirectory();
    return await root.getDirectoryHandle(FOLDER, { create: true });
  } catch (cause) {
    // Private windows of some browsers.
    throw new StorageError(action, (cause as Error).message, { cause });
  }
}

class BrowserModelStore implements ModelStore {
  readonly #options: Required<ModelStoreOptions>;

  constructor(options: Required<ModelStoreOptions>) {
    this.#options = options;
  }

  async list(): Promise<readonly StoredModel[]> {
    const names: string[] = [];
    for await (const key of this.#options.folder.keys()) names.push(decodeURIComponent(key));
    return Promise.all(names.sort().map((name) => this.#describe(name)));
  }

  async add(origin: ModelOrigin, options: AddOptions = {}): Promise<string> {
    const transfers = requireCount("transfers", options.transfers ?? DEFAULT_TRANSFERS);
    const ending = new AbortController();
    const { signal: callers, onProgress = () => {} } = options;
    const stop = () => ending.abort(callers?.reason);
    if (callers?.aborted) stop();
    callers?.addEventListener("abort", stop);
    try {
      const opened = await openOrigin(origin, {
        headers: options.headers ?? {},
        signal: ending.signal,
        idleTimeout: options.idleTimeout ?? DEFAULT_IDLE_TIMEOUT,
        policy: options.retryPolicy ?? DEFAULT_RETRY_POLICY,
        onRetry: (note) => onProgress({ phase: "listing", done: 0, total: 0, note }),
      });
      const name = options.name ?? opened.name;
      if (name === undefined) throw new StorageError("store the picked files", "they need a name");
      if (await this.#tellComplete(name, opened, onProgress)) return name;
      onProgress({ phase: "waiting", done: 0, total: 0 });
      const { signal } = ending;
      await this.#options.locks.request(lockName(name), { mode: "exclusive", signal }, () =>
        this.#addAlone(name, { ...options, transfers, opened, ending }),
      );
      return name;
    } finally {
      callers?.removeEventListener("abort", stop);
    }
  }

  async #addAlone(
    name: string,
    options: AddOptions & {
      readonly transfers: number;
      readonly opened: OpenedOrigin;
      readonly ending: AbortController;
    },
  ): Promise<void> {
    const { transfers, opened, ending, onProgress = () => {} } = options;
    if (await this.#tellComplete(name, opened, onProgress)) return;
    onProgress({ phase: "listing", done: 0, total: 0 });
    let needed = 0;
    let model: ModelFolder | undefined;
    try {
      model = await this.#begin(name, opened, (total) => {
        needed = total;
      });
      await downloadModel({
        ...model,
        origin: opened,
        policy: options.retryPolicy ?? DEFAULT_RETRY_POLICY,
        transfers,
        ending,
        onProgress,
        checkRoom: async (missing) => {
          const free = freeBytes(await this.usage());
          if (free !== undefined && missing > free) throw await this.#full(name, missing);
        },
      });
    } catch (error) {
      if (!isQuotaError(error)) throw error;
      // What came meanwhile stays.
      if (model !== undefined) needed = await missingBytes(model);
      throw await this.#full(name, needed, error);
    }
  }

  /**
   * The model's folder, with a manifest that says what belongs to it.
   *
   * @param onListed Told the bytes of a new model before any is written.
   */
  async #begin(
    name: string,
    opened: OpenedOrigin,
    onListed: (total: number) => void,
  ): Promise<ModelFolder> {
    const found = await this.#find(name);
    if (found !== undefined) return found;
    const { commit, files } = await opened.list();
    const manifest: Manifest = {
      name,
      origin: opened.stored,
      commit,
      partBytes: this.#options.partBytes,
      files: files.map(({ name, size, digest }) => ({ name, size, digest, isComplete: false })),
    };
    onListed(totalBytes(manifest));
    const options = { create: true };
    const folder = await this.#options.folder.getDirectoryHandle(folderName(name), options);
    await writeManifest(folder, manifest);
    return { folder, manifest };
  }

  async open(name: string): Promise<WeightSource> {
    const model = await this.#existing(name);
    const missing = await missingBytes(model);
    if (missing > 0) {
      const total = totalBytes(model.manifest);
      throw new CheckpointError(name, `${missing} of its ${total} bytes are missing: add it again`);
    }
    const unchecked = model.manifest.files.filter(({ isComplete }) => !isComplete);
    if (unchecked.length > 0) {
      const names = unchecked.map((file) => file.name).join(", ");
      throw new CheckpointError(name, `${names}: damaged, or not checked yet: add it again`);
    }
    const { locks } = this.#options;
    return new StoredSource({ ...model, locks, lockName: lockName(name) });
  }

  async verify(name: string, options: VerifyOptions = {}): Promise<readonly string[]> {
    const { signal } = options;
    const request = { mode: "shared", ...(signal && { signal }) } as const;
    return this.#options.locks.request(lockName(name), request, async () =>
      verifyModel(await this.#existing(name), options),
    );
  }

  async delete(name: string): Promise<void> {
    const { folder, locks } = this.#options;
    const request = { mode: "exclusive", ifAvailable: true } as const;
    await locks.request(lockName(name), request, async (lock) => {
      const action = `delete ${name}`;
      if (lock === null) {
        throw new StorageError(action, "it is being added or loaded, maybe in another tab");
      }
      await folder.removeEntry(folderName(name), { recursive: true }).catch((cause: Error) => {
        const problem = isNotFound(cause) ? "there is no such model" : cause.message;
        throw new StorageError(action, problem, { cause });
      });
    });
  }

  async usage(): Promise<StorageUsage> {
    const { usage: used = 0, quota: estimated } = await this.#options.quota.estimate();
    const quota = isInvented(used, estimated) ? undefined : estimated;
    return { used, quota, persisted: await this.#options.quota.persisted() };
  }

  persist(): Promise<boolean> {
    return this.#options.quota.persist();
  }

  async #describe(name: string): Promise<StoredModel> {
    const unreadable = { origin: undefined, commit: undefined, size: 0, missing: 0, files: [] };
    const model = await this.#find(name).catch((error: unknown) => {
      if (error instanceof StorageError) return undefined;
      throw error;
    });
    if (model === undefined) return { name, ...unreadable, isComplete: false };
    const { origin, commit, files } = model.manifest;
    return {
      name,
      origin,
      commit,
      size: totalBytes(model.manifest),
      missing: await missingBytes(model),
      isComplete: await isComplete(model),
      files: files.map(({ name, size }) => ({ name, size })),
    };
  }

  /** @throws {DownloadError} when what is stored by this name is from elsewhere. */
  async #tellComplete(
    name: string,
    opened: OpenedOrigin,
    onProgress: (progress: StoreProgress) => void,
  ): Promise<boolean> {
    const model = await this.#find(name);
    if (model === undefined) return false;
    checkOrigin(model.manifest, opened);
    if (!(await isComplete(model))) return false;
    const total = totalBytes(model.manifest);
    onProgress({ phase: "complete", done: total, total });
    return true;
  }

  async #existing(name: string): Promise<ModelFolder> {
    const model = await this.#find(name);
    if (model === undefined) throw new CheckpointError(name, "no model of this name is stored");
    return model;
  }

  /** Undefined where no model of this name was begun. */
  async #find(name: string): Promise<ModelFolder | undefined> {
    try {
      const folder = await this.#options.folder.getDirectoryHandle(folderName(name));
      const manifest = await readManifest(folder);
      return manifest && { folder, manifest };
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  async #full(name: string, needed: number, cause?: unknown): Promise<StorageFullError> {
    const estimated = freeBytes(await this.usage());
    const deletable = (await this.list())
      .map((model) => ({ name: model.name, bytes: model.size - model.missing }))
      .filter((model) => model.name !== name && model.bytes > 0)
      .sort((a, b) => b.bytes - a.bytes);
    // An estimate with room for what could not be written is wrong.
    const free = estimated === undefined || estimated >= needed ? undefined : estimated;
    const room = { needed, free, deletable };
    return new StorageFullError(name, room, { cause });
  }
}

/** Undefined where the browser does not say. */
function freeBytes({ used, quota }: StorageUsage): number | undefined {
  return quota === undefined ? undefined : Math.max(0, quota - used);
}

/**
 * Whether an estimate says nothing of what may be stored: so that no page learns how large the disk
 * is, Chromium gives the bytes in use and 10 GiB, or the disk's size in whole GiB where that is less.
 */
function isInvented(used: number, quota: number | undefined): boolean {
  return quota !== undefined && quota > used && (quota - used) % 2 ** 30 === 0;
}

async function isComplete(model: ModelFolder): Promise<boolean> {
  return model.manifest.files.every((file) => file.isComplete) && (await missingBytes(model)) === 0;
}

function requireCount(name: string, value: number): number {
  if (Number.isSafeInteger(value) && value >= 1) return value;
  throw new InvalidRequestError(
    `Cannot use ${name} ${value}: it must be a whole number of at least 1`,
    name,
  );
}

/** @throws {StorageError} when no folder can be called so. */
function folderName(name: string): string {
  const key = encodeURIComponent(name);
  if (/^\.{0,2}$/.test(key) || key.length > LONGEST_FOLDER) {
    throw new StorageError(`use the name "${name}"`, "it is empty, dots, or too long");
  }
  return key;
}

function lockName(name: string): string {
  return `${FOLDER}/${folderName(name)}`;
}
