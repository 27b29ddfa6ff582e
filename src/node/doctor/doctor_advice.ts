/**
 * What is not on this machine and would help, each with what brings it.
 *
 * @module
 */
import { accessSync, constants, existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { lavapipeIsInstalled } from "../device/device.ts";
import { swiftShaderIsInstalled } from "../device/swiftshader.ts";
import type { AdapterFindings } from "./doctor_adapter.ts";

export interface Advice {
  readonly missing: string;
  /** A command, or what to do without one. */
  readonly remedy: string;
}

const LIBRARIES = [
  "/usr/lib/x86_64-linux-gnu",
  "/usr/lib/aarch64-linux-gnu",
  "/usr/lib64",
  "/usr/lib",
  "/usr/local/lib",
];
const LOADER = "libvulkan.so.1";
const RENDER_NODES = "/dev/dri";
const NVIDIA = "/dev/nvidia0";

/** @param adapter Undefined where none works. */
export function adviceFor(adapter: AdapterFindings | undefined): readonly Advice[] {
  const advice: Advice[] = process.platform === "linux" ? [...linuxAdvice(adapter)] : [];
  if (adapter !== undefined && adapter.tuned === undefined) {
    advice.push({
      missing: "a measurement of which form of the kernels is the fastest here",
      remedy: "wisp tune --model MODEL",
    });
  }
  return advice;
}

function linuxAdvice(adapter: AdapterFindings | undefined): readonly Advice[] {
  const advice: Advice[] = [];
  if (!hasLoader()) {
    advice.push({
      missing: `the Vulkan loader (${LOADER}), which finds GPUs`,
      remedy: "apt-get install libvulkan1",
    });
  }
  if (adapter?.isCpu === false) return advice;
  if (existsSync(NVIDIA)) {
    advice.push({
      missing: "the Vulkan part of NVIDIA's driver: there is a GPU, and no Vulkan driver for it",
      remedy:
        "set NVIDIA_DRIVER_CAPABILITIES=all for a container, else apt-get install libnvidia-gl-VERSION",
    });
  }
  if (closedNodes().length > 0) {
    advice.push({
      missing: `access of this user to ${closedNodes().join(", ")}`,
      remedy: "usermod --append --groups render USER, then log in again",
    });
  }
  if (!lavapipeIsInstalled()) {
    advice.push({
      missing: "lavapipe, the fastest driver for the CPU",
      remedy:
        "apt-get install mesa-vulkan-drivers (Mesa 25 or newer; on Debian 12 from bookworm-backports)",
    });
  }
  if (adapter === undefined && process.arch === "x64" && !swiftShaderIsInstalled()) {
    advice.push({
      missing: "SwiftShader, a driver for the CPU that needs no package of the system",
      remedy: "npm install @sparticuz/chromium",
    });
  }
  return advice;
}

function hasLoader(): boolean {
  const folders = [...(process.env.LD_LIBRARY_PATH ?? "").split(":"), ...LIBRARIES];
  return folders.some((folder) => folder !== "" && existsSync(join(folder, LOADER)));
}

/** GPUs that are there and that this user may not open. */
function closedNodes(): readonly string[] {
  return namesIn(RENDER_NODES)
    .filter((name) => name.startsWith("renderD"))
    .map((name) => join(RENDER_NODES, name))
    .filter((path) => !isOpen(path));
}

/** None where there is no such folder, or it cannot be looked into. */
function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function isOpen(path: string): boolean {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
