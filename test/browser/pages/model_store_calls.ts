/**
 * What a test asks of the model store in a browser, with plain data in and out: the same on a page
 * and in a worker.
 *
 * @module
 */

import type { ModelOrigin } from "../../../src/browser/download/download_origin.ts";
import { filesSource } from "../../../src/browser/download/file_source.ts";
import type {
  StorageUsage,
  StoredModel,
  StoreProgress,
} from "../../../src/browser/storage/model_store.ts";
import { openModelStore } from "../../../src/browser/storage/storage.ts";
import { StorageFullError } from "../../../src/browser/storage/storage_error.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";

export interface Added {
  readonly progress: readonly StoreProgress[];
  readonly seconds: number;
  /** What it failed with. */
  readonly error?: { readonly message: string; readonly room?: object };
}

/** SHA-256 of every file, by name. */
export type Digests = Readonly<Record<string, string>>;

export interface StoreCalls {
  add(origin: ModelOrigin, name: string): Promise<Added>;
  /** Bytes of the model that the last `add` told of, while it runs. */
  done(): Promise<number>;
  digests(name: string): Promise<{ readonly digests: Digests; readonly seconds: number }>;
  digestsOfFiles(files: readonly File[]): Promise<Digests>;
  list(): Promise<readonly StoredModel[]>;
  verify(name: string): Promise<{ readonly damaged: readonly string[]; readonly seconds: number }>;
  /** Flips one bit of a stored part. */
  damage(name: string, part: string): Promise<void>;
  delete(name: string): Promise<string>;
  usage(): Promise<StorageUsage>;
}

const retryPolicy = { retries: 5, backoff: 5, longestWait: 50, progressBytes: 2 ** 20 };

export async function storeCalls(): Promise<StoreCalls> {
  const store = await openModelStore({ partBytes: 2 ** 20 });
  let done = 0;
  return {
    async add(origin, name) {
      const progress: StoreProgress[] = [];
      const since = performance.now();
      const onProgress = (news: StoreProgress) => {
        done = news.done;
        progress.push(news);
      };
      const error = await store.add(origin, { name, onProgress, retryPolicy }).then(
        () => undefined,
        (failure: Error) => ({
          message: failure.message,
          ...(failure instanceof StorageFullError && {
            room: { needed: failure.needed, free: failure.free, deletable: failure.deletable },
          }),
        }),
      );
      return { progress, seconds: seconds(since), ...(error && { error }) };
    },
    done: async () => done,
    async digests(name) {
      const since = performance.now();
      const digests = await digestsOf(await store.open(name));
      return { digests, seconds: seconds(since) };
    },
    digestsOfFiles: (files) => digestsOf(filesSource(files)),
    list: () => store.list(),
    async verify(name) {
      const since = performance.now();
      return { damaged: await store.verify(name), seconds: seconds(since) };
    },
    async damage(name, part) {
      const root = await navigator.storage.getDirectory();
      const folder = await root.getDirectoryHandle("wisp-models");
      const model = await folder.getDirectoryHandle(encodeURIComponent(name));
      const file = await model.getFileHandle(part);
      const bytes = new Uint8Array(await (await file.getFile()).arrayBuffer());
      bytes[7]! ^= 1;
      const copy = await file.createWritable();
      await copy.write(bytes);
      await copy.close();
    },
    delete: (name) =>
      store.delete(name).then(
        () => "deleted",
        (error: Error) => error.message,
      ),
    usage: () => store.usage(),
  };
}

async function digestsOf(source: WeightSource): Promise<Digests> {
  const digests: Record<string, string> = {};
  for (const { name, size } of await source.list()) {
    const hash = await crypto.subtle.digest("SHA-256", await source.read(name, 0, size));
    digests[name] = [...new Uint8Array(hash)].map((b) => b.toString(16).padStart(2, "0")).join("");
  }
  await source.close?.();
  return digests;
}

function seconds(since: number): number {
  return (performance.now() - since) / 1000;
}
