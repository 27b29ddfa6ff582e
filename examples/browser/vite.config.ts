/**
 * Builds the demo: static files that work in any folder of any server, the embedded model included.
 *
 * @module
 */
import { cpSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, defineConfig, type Plugin } from "vite";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

const MODEL = "tiny-deepseek-v3";
const MODEL_FOLDER = here(`../${MODEL}`);

/** Puts the embedded model beside the page, as a file server has it. */
function embeddedModel(): Plugin {
  let outDir = "";
  return {
    name: "embedded-model",
    configResolved: (config) => {
      outDir = config.build.outDir;
    },
    closeBundle: () => {
      for (const file of readdirSync(MODEL_FOLDER)) {
        if (file !== "README.md") cpSync(join(MODEL_FOLDER, file), join(outDir, MODEL, file));
      }
    },
  };
}

/**
 * Puts the service worker of the local endpoint beside the page, where the page is in its scope: one
 * file, since browsers load those of a service worker before it starts.
 */
function serviceWorker(): Plugin {
  let outDir = "";
  return {
    name: "service-worker",
    configResolved: (config) => {
      outDir = config.build.outDir;
    },
    closeBundle: async () => {
      await build({
        configFile: false,
        logLevel: "error",
        resolve: { tsconfigPaths: true },
        build: {
          outDir,
          emptyOutDir: false,
          target: "es2022",
          rolldownOptions: {
            input: { browser_service_worker: here("../../src/browser/service_worker.ts") },
            output: { format: "iife", entryFileNames: "[name].js" },
          },
        },
      });
    },
  };
}

export default defineConfig({
  root: here("."),
  base: "./",
  resolve: { tsconfigPaths: true },
  worker: { format: "es" },
  build: {
    chunkSizeWarningLimit: 3000,
    outDir: here("../../.cache/demo"),
    emptyOutDir: true,
    target: "es2022",
    rolldownOptions: { input: [here("index.html"), here("device.html")] },
  },
  plugins: [embeddedModel(), serviceWorker()],
});
