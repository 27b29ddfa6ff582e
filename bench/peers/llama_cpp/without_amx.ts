/**
 * llama.cpp without its build for AMX, which aborts with deepseek2 in f16 and q8_0: its scheduler
 * finds no backend for a tensor. It then takes the next best of its builds.
 *
 * @module
 */
import { existsSync, renameSync } from "node:fs";
import { fileURLToPath } from "node:url";

const FOLDERS = ["linux-x64", "linux-x64-vulkan"];
const LIBRARY = "libggml-cpu-sapphirerapids.so";
const ASIDE = `${LIBRARY}.aside`;

/** The library is put aside while `work` runs, and back again, also after a run that was killed. */
export function withoutAmx<T>(work: () => T): T {
  const folders = FOLDERS.map((name) =>
    fileURLToPath(
      new URL(`../node_modules/@node-llama-cpp/${name}/bins/${name}/`, import.meta.url),
    ),
  );
  const move = (from: string, to: string) => {
    for (const folder of folders) {
      if (existsSync(folder + from)) renameSync(folder + from, folder + to);
    }
  };
  move(LIBRARY, ASIDE);
  try {
    return work();
  } finally {
    move(ASIDE, LIBRARY);
  }
}
