/**
 * The parts of the library that need a browser.
 *
 * @module
 */

export { DownloadError, type RetryPolicy } from "../http/retries.ts";
export {
  type AdapterDescription,
  describeAdapter,
  deviceFactory,
  inspectAdapter,
  type OpenDeviceOptions,
  openDevice,
} from "./device.ts";
export type { StoreProgress } from "./download_model.ts";
export type { ModelOrigin } from "./download_origin.ts";
export { filesSource, folderSource } from "./file_source.ts";
export {
  type Connectable,
  type LocalEndpoint,
  type LocalEndpointOptions,
  startLocalEndpoint,
} from "./local_endpoint.ts";
export { type ModelAddress, openModel } from "./model_address.ts";
export type {
  AddOptions,
  ModelStore,
  StorageUsage,
  StoredModel,
  VerifyOptions,
} from "./model_store.ts";
export type { StoredOrigin } from "./opfs_manifest.ts";
export { openPrefixStorage } from "./prefix_storage.ts";
export { type ModelStoreOptions, openModelStore } from "./storage.ts";
export { type DeletableModel, StorageError, StorageFullError } from "./storage_error.ts";
export { type UrlSourceOptions, urlSource } from "./url_source.ts";
export {
  loadWorkerEngine,
  type WorkerEngine,
  type WorkerEngineOptions,
} from "./worker_engine.ts";
export { workerGrammarService } from "./worker_grammar_service.ts";
