/**
 * Checks of all kernels with their texts as the package has them: each shortened by itself, then
 * joined and specialised by the wrappers.
 *
 * @module
 */
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createServer } from "vite";
import type { KernelCheck } from "../../../kernels/check.ts";
import { wgslText } from "../../../packaging/wgsl_text.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));

export async function loadShortKernels(): Promise<readonly KernelCheck<object>[]> {
  const server = await createServer({
    ...{ root, configFile: false, logLevel: "error", appType: "custom" },
    ...{ plugins: [wgslText()], optimizeDeps: { noDiscovery: true } },
    server: { middlewareMode: true, watch: null, ws: false },
  });
  try {
    const files = readdirSync(`${root}/kernels`, { recursive: true, encoding: "utf8" });
    const checks: KernelCheck<object>[] = [];
    for (const file of files.filter((name) => name.endsWith(".check.ts")).sort()) {
      const { default: check } = await server.ssrLoadModule(`/kernels/${file}`);
      checks.push(check);
    }
    return checks;
  } finally {
    await server.close();
  }
}
