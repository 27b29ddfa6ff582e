/**
 * The parts of the library that need Node: an adapter, files and model hubs, a socket.
 *
 * @module
 */

export { DownloadError, type RetryPolicy } from "../http/retries.ts";
export type { AdapterPreference } from "./device/adapter_preference.ts";
export {
  type AdapterDescription,
  describeAdapter,
  deviceFactory,
  type OpenDeviceOptions,
  type OpenedDevice,
  openDevice,
} from "./device/device.ts";
export { driverThreadsFor } from "./device/driver_threads.ts";
export { type FolderSource, openFolder } from "./files.ts";
export {
  type DownloadedModel,
  type DownloadOptions,
  type DownloadReport,
  downloadModel,
} from "./hub/download_model.ts";
export type { Environment } from "./hub/hub_settings.ts";
export {
  MissingModelError,
  type ResolvedModel,
  type ResolveOptions,
  resolveModel,
} from "./hub/resolve_model.ts";
export { sharpDecoder } from "./media/sharp_decoder.ts";
export { ProfileFiles, type ProfileFilesOptions } from "./observe/profile_files.ts";
export { defaultModelPath } from "./package_root.ts";
export { prefixFiles } from "./prefix_files.ts";
export { type App, type RunningServer, type ServeOptions, serve } from "./serve/http.ts";
export { workerGrammarService } from "./worker_grammar_service.ts";
export { workerImageService } from "./worker_image_service.ts";
export { workerTextService } from "./worker_text_service.ts";
