/**
 * Compiles models for a GPU that is not there, and keeps what its compiler tells.
 *
 * @module
 */
import { execFileSync, spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { AbsentGpu } from "./gpus.ts";

const SOURCES = join(import.meta.dirname, "driver");
const ROOT = join(import.meta.dirname, "../..");
const MANIFESTS = "/usr/share/vulkan/icd.d";
const HEADERS = { vulkan: "/usr/include/vulkan/vulkan.h", i915: "/usr/include/libdrm/i915_drm.h" };

/** The library that a Mesa manifest of Vulkan 1.4 or later names; undefined where there is none. */
function mesaDriver(name: string): string | undefined {
  const files = existsSync(MANIFESTS) ? readdirSync(MANIFESTS) : [];
  const file = files.find((one) => new RegExp(`^${name}_icd(\\.x86_64)?\\.json$`).test(one));
  if (file === undefined) return undefined;
  const { ICD } = JSON.parse(readFileSync(join(MANIFESTS, file), "utf8")) as {
    readonly ICD: { readonly library_path: string; readonly api_version: string };
  };
  const [major, minor] = ICD.api_version.split(".").map(Number);
  return major === 1 && minor! >= 4 ? ICD.library_path : undefined;
}

function hasCompiler(): boolean {
  try {
    execFileSync("gcc", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** What this machine lacks to compile for a GPU, a sentence; undefined when it lacks nothing. */
export function whatLacks({ intel }: AbsentGpu): string | undefined {
  if (process.platform !== "linux" || process.arch !== "x64") return "it takes Linux on x64";
  if (mesaDriver(intel ? "intel" : "radeon") === undefined) {
    return "it takes Mesa 25 or later (apt: mesa-vulkan-drivers of bookworm-backports)";
  }
  if (!hasCompiler()) return "it takes a C compiler (apt: gcc)";
  if (!existsSync(HEADERS.vulkan)) return "it takes the headers of Vulkan (apt: libvulkan-dev)";
  if (intel && !existsSync(HEADERS.i915)) return "it takes the headers of i915 (apt: libdrm-dev)";
  return undefined;
}

/** A library of `driver`, built where it is older than its source. */
function built(name: string, flags: readonly string[]): string {
  const folder = join(ROOT, ".cache/gpu_code");
  mkdirSync(folder, { recursive: true });
  const [source, library] = [join(SOURCES, `${name}.c`), join(folder, `${name}.so`)];
  const isFresh = existsSync(library) && statSync(library).mtimeMs > statSync(source).mtimeMs;
  if (!isFresh) {
    const own = `${library}.${process.pid}`;
    const common = ["-O2", "-shared", "-fPIC", "-o", own, source, "-ldl", "-lpthread"];
    execFileSync("gcc", [...flags, ...common], { stdio: ["ignore", "ignore", "inherit"] });
    execFileSync("mv", [own, library]);
  }
  return library;
}

/** What a file system shows of an Intel GPU. */
function showIntelGpu({ name, intel }: AbsentGpu): Record<string, string> {
  if (intel === undefined) return {};
  const folder = join(tmpdir(), `wisp-gpu-code-${name}`);
  const device = join(folder, "sys/dev/char/226:128/device");
  for (const one of [join(folder, "dev/dri"), join(device, "drm/renderD128")]) {
    mkdirSync(one, { recursive: true });
  }
  writeFileSync(join(folder, "dev/dri/renderD128"), "");
  const fields = {
    uevent: "PCI_SLOT_NAME=0000:00:02.0",
    vendor: "0x8086",
    device: `0x${intel.id}`,
    subsystem_vendor: "0x8086",
    subsystem_device: "0x0000",
    revision: "0x00",
  };
  for (const [field, text] of Object.entries(fields))
    writeFileSync(join(device, field), `${text}\n`);
  rmSync(join(device, "subsystem"), { force: true });
  symlinkSync("/sys/bus/pci", join(device, "subsystem"));
  const { id, hasOwnMemory, subslices, timestamps } = intel;
  return {
    LD_PRELOAD: built("absent_i915", ["-I/usr/include/libdrm"]),
    WISP_INTEL_GPU: `${id} ${Number(hasOwnMemory)} ${subslices} ${timestamps}`,
    WISP_INTEL_FOLDER: folder,
  };
}

/** The environment in which Dawn finds the GPU, and nothing else. */
function environmentOf(gpu: AbsentGpu): Record<string, string> {
  const library = built("absent_gpu", ["-fvisibility=hidden"]);
  const manifest = `${library}.json`;
  const icd = { library_path: library, api_version: "1.4.305" };
  writeFileSync(manifest, JSON.stringify({ file_format_version: "1.0.0", ICD: icd }));
  return {
    ...showIntelGpu(gpu),
    ...(gpu.intel === undefined && { RADV_FORCE_FAMILY: gpu.name }),
    VK_ICD_FILENAMES: manifest,
    VK_DRIVER_FILES: manifest,
    MESA_SHADER_CACHE_DISABLE: "1",
    WISP_GPU_DRIVER: mesaDriver(gpu.intel ? "intel" : "radeon")!,
    WISP_ADAPTER: "gpu",
    WISP_SUBGROUP_MATRICES: "1",
    NODE_OPTIONS: `--import ${join(SOURCES, "label_modules.mjs")}`,
  };
}

/** A text of kernels, and what stands in its place, wherever it occurs. */
export interface PlantedText {
  readonly replace: string;
  readonly with: string;
}

export interface CaptureOptions {
  /** Gets a line of JSON for each pipeline: the fields of the compiler as they are. */
  readonly file: string;
  /** Names of `COMPILED_MODELS`. Default: all. */
  readonly models?: readonly string[] | undefined;
  /** Fields in place of those of the GPU's tuning. */
  readonly tuning?: object | undefined;
  /** What is changed in the kernels' texts. */
  readonly planted?: readonly PlantedText[] | undefined;
}

/**
 * Compiles models for a GPU in a process of its own.
 *
 * @throws {Error} with what the process wrote when it fails.
 */
export async function captureCode(
  gpu: AbsentGpu,
  { file, models, tuning, planted }: CaptureOptions,
): Promise<void> {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, "");
  const { status, written } = await runBench("compile_models", {
    ...environmentOf(gpu),
    WISP_GPU_CODE: file,
    UV_THREADPOOL_SIZE: String(Math.max(4, availableParallelism())),
    ...(models && { WISP_GPU_MODELS: models.join() }),
    ...(planted && { WISP_GPU_PLANTED: JSON.stringify(planted) }),
    ...(tuning && { WISP_GPU_TUNING: JSON.stringify(tuning) }),
  });
  if (status !== 0) throw new Error(`Cannot compile for ${gpu.name}:\n${written}`);
}

/** Runs a bench of this folder in a process of its own: its exit code, and what it wrote. */
export async function runBench(
  name: string,
  environment: Readonly<Record<string, string>>,
): Promise<{ readonly status: number | null; readonly written: string }> {
  const vitest = join(ROOT, "node_modules/vitest/vitest.mjs");
  const bench = `bench/gpu_code/${name}.bench.ts`;
  const child = spawn(process.execPath, [vitest, "run", "--project", "bench", bench], {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...environment },
  });
  let written = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      written += text;
    });
  }
  const status = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { status, written };
}
