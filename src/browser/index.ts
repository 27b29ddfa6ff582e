/**
 * The parts of the library that need a browser.
 *
 * @module
 */

export { DownloadError, type RetryPolicy } from "../http/retries.ts";
export { browserDecoder } from "./decode_image.ts";
export type { ArrivedPages } from "./decode_node/arriving_prompts.ts";
export type { DecodeNode, DecodeNodeOptions } from "./decode_node/decode_node.ts";
export { joinAsDecodeNode } from "./decode_node/join.ts";
export {
  type AdapterDescription,
  describeAdapter,
  deviceFactory,
  inspectAdapter,
  type OpenDeviceOptions,
  openDevice,
} from "./device.ts";
export type { ModelOrigin } from "./download/download_origin.ts";
export { filesSource, folderSource } from "./download/file_source.ts";
export { type UrlSourceOptions, urlSource } from "./download/url_source.ts";
export {
  type Connectable,
  type LocalEndpoint,
  type LocalEndpointOptions,
  startLocalEndpoint,
} from "./endpoint/local_endpoint.ts";
export type {
  AddOptions,
  ModelStore,
  StorageUsage,
  StoredModel,
  StoreProgress,
  VerifyOptions,
} from "./storage/model_store.ts";
export type { StoredOrigin } from "./storage/opfs_manifest.ts";
export { openPrefixStorage } from "./storage/prefix_storage.ts";
export { type ModelStoreOptions, openModelStore } from "./storage/storage.ts";
export { type DeletableModel, StorageError, StorageFullError } from "./storage/storage_error.ts";
export { type ModelAddress, openModel } from "./worker/model_address.ts";
export {
  loadWorkerEngine,
  type WorkerEngine,
  type WorkerEngineOptions,
} from "./worker/worker_engine.ts";
export { workerGrammarService } from "./worker/worker_grammar_service.ts";
export { workerImageService } from "./worker/worker_image_service.ts";
