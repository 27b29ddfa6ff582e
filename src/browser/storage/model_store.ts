/**
 * What a store of models in the browser's own storage can do.
 *
 * @module
 */

import type { WeightSource } from "../../checkpoint/source.ts";
import type { RetryPolicy } from "../../http/retries.ts";
import type { ModelOrigin } from "../download/download_origin.ts";
import type { StoredOrigin } from "./opfs_manifest.ts";

export interface StoredModel {
  readonly name: string;
  /** `add` takes one of kind url or hub as it is. Undefined where the manifest cannot be read. */
  readonly origin: StoredOrigin | undefined;
  /** Commit of a model from a hub. */
  readonly commit: string | undefined;
  /** Bytes of all files. */
  readonly size: number;
  /** Bytes that are not here yet. */
  readonly missing: number;
  /** Everything is here, so that `open` takes it. */
  readonly isComplete: boolean;
  readonly files: readonly { readonly name: string; readonly size: number }[];
}

/** How far a model is that is being added. */
export interface StoreProgress {
  /**
   * `waiting` for another tab that adds or loads the model; `listing` what the origin has;
   * `checking` what an earlier page has left.
   */
  readonly phase: "waiting" | "listing" | "checking" | "downloading" | "complete";
  /** Bytes that are here and checked. */
  readonly done: number;
  /** Bytes of all files; 0 until they are known. */
  readonly total: number;
  /** The file that came last. */
  readonly file?: string;
  /** Over the last seconds. */
  readonly bytesPerSecond?: number;
  readonly secondsLeft?: number;
  /** One sentence about something that takes time, such as why a file is asked for again. */
  readonly note?: string;
}

export interface AddOptions {
  /** Default: the id on the hub, the address without its scheme, the name of the folder. */
  readonly name?: string;
  readonly onProgress?: (progress: StoreProgress) => void;
  /** Ends the download, which a later one goes on with. */
  readonly signal?: AbortSignal;
  /** For the server or hub alone, such as `authorization`. They are not stored. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly retryPolicy?: RetryPolicy;
  /** Files fetched at once. Default 4. */
  readonly transfers?: number;
  /** Milliseconds without a byte after which a connection is given up. Default 30000. */
  readonly idleTimeout?: number;
}

export interface VerifyOptions {
  readonly onProgress?: (bytesDone: number, bytesTotal: number) => void;
  readonly signal?: AbortSignal;
}

export interface StorageUsage {
  /** Bytes that this origin has stored, of everything. */
  readonly used: number;
  /** Bytes that the browser grants it; undefined where it does not say. */
  readonly quota: number | undefined;
  /** Whether the browser keeps them also when the disk gets full. */
  readonly persisted: boolean;
}

export interface ModelStore {
  list(): Promise<readonly StoredModel[]>;
  /**
   * Fetches what is missing of a model, and checks every file by the hub's checksum where there is
   * one. A model of a hub stays at the commit that it was begun at, and one that is complete is
   * asked nothing about: to get a newer one, delete it first. Where another tab adds the same model
   * this waits for it.
   *
   * @returns The name to open it by.
   * @throws {DownloadError} naming the file that cannot be had. What is here stays.
   * @throws {StorageFullError} when the browser grants no room.
   * @throws {InvalidRequestError} naming what cannot be meant of the origin, or an option that is out
   * of range.
   * @throws {DOMException} named AbortError (or what `signal` gives) when it is aborted.
   */
  add(origin: ModelOrigin, options?: AddOptions): Promise<string>;
  /**
   * A source that reads the stored files in place. While something is read, until `close`, no tab
   * can delete the model.
   *
   * @throws {CheckpointError} when there is no such model, or bytes of it are missing.
   */
  open(name: string): Promise<WeightSource>;
  /**
   * Reads a model and compares its checksums. A damaged file no longer counts as complete, so that
   * `open` refuses the model and `add` fetches that file again.
   *
   * @returns Names of the damaged files.
   * @throws {CheckpointError} when there is no such model.
   */
  verify(name: string, options?: VerifyOptions): Promise<readonly string[]>;
  /** @throws {StorageError} when there is no such model, or it is being added or read. */
  delete(name: string): Promise<void>;
  usage(): Promise<StorageUsage>;
  /** Asks the browser to keep what is stored also when the disk gets full. Says whether it will. */
  persist(): Promise<boolean>;
}
