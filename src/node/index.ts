/**
 * The parts of the library that need Node: an adapter, a folder of files, a socket.
 *
 * @module
 */

export {
  type AdapterDescription,
  type AdapterPreference,
  describeAdapter,
  deviceFactory,
  type OpenDeviceOptions,
  type OpenedDevice,
  openDevice,
} from "./device.ts";
export { driverThreadsFor } from "./driver_threads.ts";
export { type FolderSource, openFolder } from "./files.ts";
export { type App, type RunningServer, type ServeOptions, serve } from "./http.ts";
export { defaultModelPath } from "./package_root.ts";
