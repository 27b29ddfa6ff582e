/**
 * Builds the page that the server has at `/`: the views of the browser example, without its engine.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "vite";

const ROOT = fileURLToPath(new URL("../examples/browser", import.meta.url));
/** What the views take of the library, without reading the rest of it. */
const LIBRARY = fileURLToPath(new URL("../src/grammar/library.ts", import.meta.url));

/** What stands in the example's page for an engine of its own, and what for a server's. */
const OF_ENGINE = /[ \t]*<!-- engine -->[\s\S]*?<!-- \/engine -->\n?/g;
const OF_SERVER = /<!-- server:([\s\S]*?)-->/g;
const INLINE_SCRIPT = /<script>([\s\S]*?)<\/script>/g;

/**
 * Makes the server's page of the example's. Its policy allows no script that stands in the page, so
 * that the one which must run before anything is drawn becomes a file too.
 */
function ofServer(): Plugin {
  return {
    name: "page-of-server",
    transformIndexHtml: {
      order: "pre",
      handler: (html) =>
        html
          .replace(OF_ENGINE, "")
          .replace(OF_SERVER, (_, inner: string) => inner.trim())
          .replace('src="./main.ts"', 'src="./served/main.ts"'),
    },
  };
}

function scriptsAsFiles(): Plugin {
  return {
    name: "scripts-as-files",
    enforce: "post",
    generateBundle(_, bundle) {
      const page = bundle["index.html"];
      if (page?.type !== "asset") throw new Error("Cannot build the page: it has no index.html");
      page.source = String(page.source).replace(INLINE_SCRIPT, (_, source: string) => {
        const asset = this.emitFile({ type: "asset", name: "first.js", source: source.trim() });
        return `<script src="./${this.getFileName(asset)}"></script>`;
      });
    },
  };
}

/** @param plugins Those that look at what is built, such as that of the licences. */
export async function buildWebPage(folder: string, plugins: readonly Plugin[]): Promise<void> {
  await build({
    root: ROOT,
    base: "./",
    configFile: false,
    logLevel: "error",
    resolve: { alias: { "wisp-llm": LIBRARY } },
    plugins: [...plugins, ofServer(), scriptsAsFiles()],
    build: {
      outDir: folder,
      emptyOutDir: true,
      assetsDir: "page",
      target: "es2022",
      modulePreload: { polyfill: false },
      rolldownOptions: { input: `${ROOT}/index.html`, output: { codeSplitting: false } },
    },
  });
}
