/**
 * Finds an adapter on this machine and opens devices on it, through Dawn.
 *
 * The search goes from what the system offers to what this package can bring along: the system's
 * adapter, Vulkan drivers for the CPU at known places, SwiftShader from an npm package.
 *
 * @module
 */

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import * as shippedDawn from "webgpu";
import { DeviceError } from "../../errors.ts";
import { cpuDriverOf, requestDevice } from "../../gpu/device.ts";
import { cacheFolder } from "../cache_folder.ts";
import { joinOr, OptionError } from "../options/option_parser.ts";
import { ADAPTER_PREFERENCES, type AdapterPreference } from "./adapter_preference.ts";
import { leaveTerminal, searchQuietly } from "./dawn_warnings.ts";
import {
  adapterChoice,
  LISTING_FLAG,
  type ListedAdapter,
  listedAdapters,
} from "./listed_adapters.ts";
import { settledPolls, throttlePolling, tunePolling } from "./polling.ts";
import { unpackSwiftShader } from "./swiftshader.ts";

export interface OpenDeviceOptions {
  /** Default: the environment variable `WISP_ADAPTER`, else `auto`. */
  readonly adapter?: AdapterPreference;
  /**
   * Threads that lavapipe hands workgroups to; 0 runs them on the driver's own thread. The first
   * device of a process decides, and the variable `LP_NUM_THREADS` before it. Default: one a core.
   */
  readonly driverThreads?: number | undefined;
  /**
   * Asks Dawn for the subgroup matrices of the adapter, which it counts among its unsafe interfaces:
   * what numeric class mma128 computes with. Default false.
   */
  readonly subgroupMatrices?: boolean | undefined;
  /** Which of the adapters that `listAdapters` lists. Default: the best one. */
  readonly number?: number | undefined;
}

/** What an adapter is, in words for a person. */
export interface AdapterDescription {
  readonly name: string;
  /** Driver and its version; may be empty. */
  readonly driver: string;
  readonly backend: "Vulkan" | "Metal" | "D3D12";
  /** True for llvmpipe, SwiftShader and every other adapter that runs shaders on the CPU. */
  readonly isCpu: boolean;
}

export interface OpenedDevice {
  readonly device: GPUDevice;
  readonly adapter: AdapterDescription;
}

interface Dawn {
  create(options: string[]): GPU;
  readonly globals: object;
}

/** One place to look for an adapter. */
interface Candidate {
  /** Vulkan driver manifests to use in place of the system's own search. */
  readonly manifests?: readonly string[];
  readonly dawn: () => Dawn | undefined;
}

/**
 * Everything that Dawn made, held until the process ends: Dawn crashes when its GPU object is
 * collected before the devices that came from it.
 */
const keptAlive: object[] = [];
/** Those that may still be in use. */
const opened = new Set<GPUDevice>();
/** Whether this thread is about to end. */
let isLeaving = false;
/** What has an adapter, by preference and flags. */
const openGpus = new Map<string, OpenGpu>();

interface OpenGpu {
  readonly gpu: GPU;
  readonly dawn: Dawn;
}

/** Times of kernels as the adapter has them; Dawn rounds them to 65 microseconds, for web pages. */
const DAWN_FLAGS = ["disable-dawn-features=timestamp_quantization"];
/**
 * Arithmetic in f16 on NVIDIA, which Dawn holds back there for drivers that fail some of its tests:
 * what uses it is tried by the self-test first.
 */
const F16_FEATURE = "vulkan_enable_f16_on_nvidia";
const EXPERIMENTS_FEATURE = "allow_unsafe_apis";

function dawnFlags(subgroupMatrices: boolean): readonly string[] {
  const features = [F16_FEATURE, ...(subgroupMatrices ? [EXPERIMENTS_FEATURE] : [])];
  return [...DAWN_FLAGS, `enable-dawn-features=${features.join()}`];
}

const BACKENDS: Readonly<Record<string, AdapterDescription["backend"]>> = {
  darwin: "Metal",
  win32: "D3D12",
};

const MANIFEST_FOLDERS = [
  "/usr/share/vulkan/icd.d",
  "/etc/vulkan/icd.d",
  "/usr/local/share/vulkan/icd.d",
];
/** Name of the file that tells a Vulkan loader of lavapipe. */
const LAVAPIPE = /^lvp_icd.*\.json$/;
const NO_ADAPTER =
  "Cannot find a GPU adapter: no Vulkan driver works here, install one with" +
  ' "apt-get install mesa-vulkan-drivers" (Mesa 25 or newer; on Debian 12 from bookworm-backports)';

/**
 * Opens a device on the best adapter of this machine.
 *
 * @throws {DeviceError} when there is no adapter, or when it refuses the device.
 * @throws {OptionError} when `WISP_ADAPTER` names no adapter.
 */
export async function openDevice(options: OpenDeviceOptions = {}): Promise<OpenedDevice> {
  const adapter = await numberedAdapter(options);
  keptAlive.push(adapter);
  try {
    const device = await requestDevice(adapter);
    keptAlive.push(device);
    opened.add(device);
    if (isLeaving) destroyDevices();
    return { device, adapter: describeAdapter(adapter) };
  } catch (cause) {
    const { name } = describeAdapter(adapter);
    throw new DeviceError(`Cannot open a device on ${name}: ${(cause as Error).message}`, {
      cause,
    });
  }
}

/**
 * Destroys all devices of this thread, those that are being opened too, and resolves once nothing of
 * Dawn's is pending: a thread that ends before takes its process with it, as Dawn aborts.
 */
export function leaveDevices(): Promise<void> {
  isLeaving = true;
  destroyDevices();
  return settledPolls();
}

function destroyDevices(): void {
  for (const device of opened) device.destroy();
  opened.clear();
}

/**
 * The adapters among which a number chooses, in the order that the system has them.
 *
 * @throws As `openDevice`.
 */
export async function listAdapters(
  options: OpenDeviceOptions = {},
): Promise<readonly ListedAdapter[]> {
  const { dawn } = await findAdapter(options);
  return listOf(dawn);
}

/**
 * What `openDevice` takes without a number.
 *
 * @throws As `openDevice`.
 */
export async function bestAdapter(options: OpenDeviceOptions = {}): Promise<AdapterDescription> {
  return describeAdapter((await findAdapter(options)).adapter);
}

async function listOf(dawn: Dawn): Promise<readonly ListedAdapter[]> {
  const gpu = dawn.create([...DAWN_FLAGS, LISTING_FLAG]);
  keptAlive.push(gpu);
  const complaint = await request(gpu).then(
    () => "",
    (error: Error) => error.message,
  );
  return listedAdapters(complaint, backendHere().toLowerCase());
}

/** @throws {DeviceError} where the system cannot tell the adapter from another of its name. */
async function numberedAdapter(options: OpenDeviceOptions): Promise<GPUAdapter> {
  const { adapter, dawn, flags } = await findAdapter(options);
  const { number } = options;
  if (number === undefined) return adapter;
  const adapters = await listOf(dawn);
  const { flag, prime } = adapterChoice(adapters, number);
  const before = process.env.DRI_PRIME;
  if (prime !== undefined) process.env.DRI_PRIME = prime;
  try {
    if (prime !== undefined && (await listOf(dawn)).length !== 1) {
      const { name } = adapters[number]!;
      const hint =
        'the layer that tells them apart comes with "apt-get install mesa-vulkan-drivers"';
      throw new DeviceError(
        `Cannot open adapter ${number}: another one is called ${name} too, and ${hint}`,
      );
    }
    const gpu = dawn.create([...flags, flag]);
    const numbered = await request(gpu);
    keptAlive.push(gpu);
    if (numbered !== null) return numbered;
    throw new DeviceError(`Cannot open adapter ${number}: the system has taken it away`);
  } finally {
    if (before === undefined) delete process.env.DRI_PRIME;
    else process.env.DRI_PRIME = before;
  }
}

/**
 * A factory for `Engine.load`: each call opens a new device.
 *
 * @param first Given out by the first call, when it is open already.
 */
export function deviceFactory(
  options: OpenDeviceOptions = {},
  first?: GPUDevice,
): () => Promise<GPUDevice> {
  let unused = first;
  return async () => {
    const device = unused ?? (await openDevice(options)).device;
    unused = undefined;
    return device;
  };
}

export function describeAdapter(adapter: GPUAdapter): AdapterDescription {
  const { vendor, architecture, device, description } = adapter.info;
  const { isCpu, name } = cpuDriverOf(adapter.info);
  return {
    name: name ?? (device || architecture || vendor || "unknown adapter"),
    driver: description,
    backend: backendHere(),
    isCpu,
  };
}

const backendHere = () => BACKENDS[process.platform] ?? "Vulkan";

function preferenceFromEnvironment(): AdapterPreference {
  const value = process.env.WISP_ADAPTER || "auto";
  if (ADAPTER_PREFERENCES.includes(value as AdapterPreference)) return value as AdapterPreference;
  throw new OptionError(
    `Cannot use WISP_ADAPTER ${value}: it must be ${joinOr(ADAPTER_PREFERENCES)}`,
  );
}

interface FoundAdapter {
  readonly adapter: GPUAdapter;
  readonly dawn: Dawn;
  readonly flags: readonly string[];
}

async function findAdapter(options: OpenDeviceOptions): Promise<FoundAdapter> {
  const preference = options.adapter ?? preferenceFromEnvironment();
  if (options.driverThreads !== undefined) {
    process.env.LP_NUM_THREADS ??= String(options.driverThreads);
  }
  const flags = dawnFlags(options.subgroupMatrices === true);
  const key = [preference, ...flags].join();
  const open = openGpus.get(key);
  if (open !== undefined) {
    const adapter = await request(open.gpu);
    if (adapter !== null) return { adapter, dawn: open.dawn, flags };
  }
  process.env.MESA_SHADER_CACHE_DIR ??= join(cacheFolder(), "mesa");
  for (const candidate of candidates(preference)) {
    const restore = useManifests(candidate.manifests);
    const dawn = candidate.dawn();
    if (dawn !== undefined) throttlePolling(dawn.globals);
    const gpu = dawn?.create([...flags]);
    const adapter = gpu === undefined ? null : await request(gpu);
    if (dawn !== undefined && gpu !== undefined && adapter !== null) {
      keptAlive.push(gpu, adapter);
      if (preference !== "gpu" || !describeAdapter(adapter).isCpu) {
        openGpus.set(key, { gpu, dawn });
        installGlobals(dawn);
        tunePolling(describeAdapter(adapter));
        leaveTerminal();
        return { adapter, dawn, flags };
      }
    }
    restore();
  }
  throw new DeviceError(
    preference === "auto"
      ? NO_ADAPTER
      : `Cannot find adapter "${preference}": no such driver works here`,
  );
}

function request(gpu: GPU): Promise<GPUAdapter | null> {
  return searchQuietly(() => gpu.requestAdapter({ powerPreference: "high-performance" }));
}

function candidates(preference: AdapterPreference): readonly Candidate[] {
  const shipped = () => shippedDawn as unknown as Dawn;
  const system: Candidate = { dawn: shipped };
  const lavapipe = manifestCandidates(MANIFEST_FOLDERS, LAVAPIPE, shipped);
  const packaged: Candidate = { dawn: packagedDawn };
  const chromium = manifestCandidates(
    foldersOf("/usr/lib", /^chromium/),
    /^vk_swiftshader_icd\.json$/,
    shipped,
  );
  switch (preference) {
    case "auto":
      return [system, ...lavapipe, ...chromium, packaged];
    case "gpu":
      return [system];
    case "lavapipe":
      return lavapipe;
    case "swiftshader":
      return [packaged, ...chromium];
    default:
      return preference satisfies never;
  }
}

/** Whether the system has lavapipe, of a version that works or not. */
export function lavapipeIsInstalled(): boolean {
  return MANIFEST_FOLDERS.some((folder) => foldersOf(folder, LAVAPIPE).length > 0);
}

function manifestCandidates(
  folders: readonly string[],
  pattern: RegExp,
  dawn: () => Dawn,
): readonly Candidate[] {
  return folders
    .flatMap((folder) => foldersOf(folder, pattern))
    .map((path) => ({ manifests: [path], dawn }));
}

/** Paths of the entries of `folder` whose names match; none when there is no such folder. */
function foldersOf(folder: string, pattern: RegExp): readonly string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => pattern.test(name))
    .map((name) => join(folder, name));
}

/** Points the Vulkan loader at `manifests`; the returned function takes that back. */
function useManifests(manifests: readonly string[] | undefined): () => void {
  if (manifests === undefined) return () => {};
  // The newer name wins over the older one, so both are set.
  const names = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];
  const before = names.map((name) => process.env[name]);
  for (const name of names) process.env[name] = manifests.join(":");
  return () => {
    names.forEach((name, i) => {
      if (before[i] === undefined) delete process.env[name];
      else process.env[name] = before[i];
    });
  };
}

/** A second copy of Dawn, which finds SwiftShader in its own folder. */
function packagedDawn(): Dawn | undefined {
  const path = unpackSwiftShader(cacheFolder());
  if (path === undefined) return undefined;
  const loaded = { exports: {} as Dawn };
  process.dlopen(loaded, path);
  return loaded.exports;
}

/** `GPUBufferUsage` and the rest, as a browser has them, where this process has none yet. */
function installGlobals(dawn: Dawn): void {
  for (const [name, value] of Object.entries(dawn.globals)) {
    if (!(name in globalThis)) {
      Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
    }
  }
}
