/**
 * What the package is built from, in one go (`vite build`): files for Node, files for the web, each
 * worker by itself, and the page that the server has at `/`.
 *
 * The web's `index.js` and `browser.js` have their dependencies inside or beside them, so that a page
 * can import them as they are. A worker's file imports nothing, so that it can be copied to wherever a page
 * serves it from; only tables of tokenizers are fetched when a model asks for them.
 *
 * @module
 */
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import type { BuildEnvironmentOptions, EnvironmentOptions, UserConfig } from "vite";
import { collectLicenses } from "./licenses.ts";
import { pureConstants } from "./pure_constants.ts";
import { buildWebPage } from "./web_page.ts";
import { wgslText } from "./wgsl_text.ts";
import { workerAddresses } from "./worker_addresses.ts";

type Output = NonNullable<BuildEnvironmentOptions["rolldownOptions"]>["output"];

/** Dependencies and Node's own modules stay imports; only our files are bundled. */
const isForeign = (id: string) => !/^(\.|\/|\0|[A-Za-z]:)/.test(id) && !id.startsWith("src/");

/** Node's files stay readable, as no page downloads them. */
const node: BuildEnvironmentOptions = {
  target: "es2022",
  minify: false,
  sourcemap: true,
  emptyOutDir: false,
  lib: {
    entry: {
      node_index: "src/index.ts",
      node_browser: "src/browser/index.ts",
      node_ai: "src/ai/index.ts",
      node_prompt_api: "src/prompt_api/index.ts",
      node: "src/node/index.ts",
      wisp: "src/node/wisp.ts",
      command: "src/node/command.ts",
      grammar_worker: "src/node/grammar_worker.ts",
      image_worker: "src/node/image_worker.ts",
      text_worker: "src/node/text_worker.ts",
      rank_process: "src/node/mpi/rank_process.ts",
      rank_thread: "src/node/threads/rank_thread.ts",
    },
    formats: ["es"],
  },
  rolldownOptions: {
    external: isForeign,
    output: { entryFileNames: "[name].js", chunkFileNames: "chunks/[name]-[hash].js" },
  },
};

/** Classes keep their names, which errors tell; stack traces have source maps. */
const minify = {
  compress: true,
  mangle: { keepNames: { class: true, function: false } },
  codegen: true,
} as const;

/**
 * What only the server knows is a file of its own, which an engine loads when its chats are asked for.
 * For a bundler to leave it apart, the engine's file must not name it, nor have what both need.
 */
const SERVER_APART = {
  includeDependenciesRecursively: false,
  groups: [{ name: "server", test: /\/src\/server\/|\/node_modules\/hono\// }],
};

/** Files beside the entries: tokenizers' tables, the server, and what several entries share. */
function chunkFileNames({
  name,
  moduleIds,
}: {
  readonly name: string;
  readonly moduleIds: readonly string[];
}): string {
  if (name === "server") return "server.js";
  const isTokenizer = moduleIds.every((id) => id.includes("/gpt-tokenizer/"));
  return isTokenizer ? "tokenizers/[name]-[hash].js" : "shared/[name].js";
}

function web(entry: Record<string, string>, output: Output = {}): EnvironmentOptions {
  const common = { entryFileNames: "[name].js", minify, comments: { annotation: true } };
  const format = (output as { format?: string }).format === "iife" ? "iife" : "es";
  return {
    consumer: "client",
    build: {
      target: "es2022",
      sourcemap: true,
      emptyOutDir: false,
      copyPublicDir: false,
      lib: { entry, formats: [format], name: "wisp" },
      rolldownOptions: {
        // Which splitting without dependencies asks for; entries export nothing else for it.
        preserveEntrySignatures: "allow-extension",
        output: { ...common, chunkFileNames, ...output },
      },
    },
  };
}

const webEnvironments = {
  web: web(
    {
      index: "src/index.ts",
      browser: "src/browser/index.ts",
      ai: "src/ai/index.ts",
      prompt_api: "src/prompt_api/index.ts",
      // Not for users: what makes it a file of its own.
      engine: "src/openai/engine.ts",
    },
    { codeSplitting: SERVER_APART },
  ),
  worker: web({ browser_worker: "src/browser/worker.ts" }),
  grammarWorker: web({ browser_grammar_worker: "src/browser/grammar_worker.ts" }),
  imageWorker: web({ browser_image_worker: "src/browser/image_worker.ts" }),
  // Not every browser has modules in service workers.
  serviceWorker: web(
    { browser_service_worker: "src/browser/service_worker.ts" },
    { format: "iife", codeSplitting: false },
  ),
};

/** The part of Vite's configuration that builds the package. */
export function packageBuild(): UserConfig {
  const licenses = collectLicenses();
  const forWeb = [wgslText(), pureConstants(), licenses.plugin];
  return {
    plugins: [
      workerAddresses(),
      ...forWeb.map((plugin) => ({
        ...plugin,
        applyToEnvironment: ({ name }: { readonly name: string }) => name in webEnvironments,
      })),
    ],
    // A server's build keeps `process.env` and loads chunks by plain `import()`; a client's has neither.
    environments: { node: { consumer: "server", build: node }, ...webEnvironments },
    builder: {
      // One set of plugins for all, as the licences are collected over all.
      sharedConfigBuild: true,
      sharedPlugins: true,
      async buildApp(builder) {
        const folder = resolve(builder.config.root, builder.config.build.outDir);
        rmSync(folder, { recursive: true, force: true });
        for (const name of ["node", ...Object.keys(webEnvironments)]) {
          await builder.build(builder.environments[name]!);
        }
        await buildWebPage(join(folder, "web_page"), [licenses.plugin]);
        licenses.write(join(folder, "THIRD_PARTY_LICENSES"));
      },
    },
  };
}
