/**
 * The parts of the library that need Node: an adapter, files and model hubs, a socket.
 *
 * @module
 */

export { DownloadError, type RetryPolicy } from "../http/retries.ts";
export type { AdapterPreference } from "./adapter_preference.ts";
export {
  type AdapterDescription,
  describeAdapter,
  deviceFactory,
  type OpenDeviceOptions,
  type OpenedDevice,
  openDevice,
} from "./device.ts";
export {
  type DownloadedModel,
  type DownloadOptions,
  type DownloadReport,
  downloadModel,
} from "./download_model.ts";
export { driverThreadsFor } from "./driver_threads.ts";
export { type FolderSource, openFolder } from "./files.ts";
export { type App, type RunningServer, type ServeOptions, serve } from "./http.ts";
export type { Environment } from "./hub_settings.ts";
export { defaultModelPath } from "./package_root.ts";
export { prefixFiles } from "./prefix_files.ts";
export { ProfileFiles, type ProfileFilesOptions } from "./profile_files.ts";
export {
  MissingModelError,
  type ResolvedModel,
  type ResolveOptions,
  resolveModel,
} from "./resolve_model.ts";
export { workerGrammarService } from "./worker_grammar_service.ts";
