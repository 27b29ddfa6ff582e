/**
 * Gives workers their built names and leaves their addresses written as every bundler understands
 * them; what Vite would make of them only suits a page.
 *
 * @module
 */
import type { Plugin } from "vite";

/** Source files that workers run, and the files of the package they become. */
const WORKERS = {
  "../grammar_worker.ts": "./browser_grammar_worker.js",
  "../image_worker.ts": "./browser_image_worker.js",
  "../worker.ts": "./browser_worker.js",
};

const address = (path: string) => `new URL("${path}", import.meta.url)`;
const placeholder = (index: number) => `__wisp_worker_${index}__`;

export function workerAddresses(): Plugin {
  const replace = (code: string, from: readonly string[], to: readonly string[]) => {
    if (!from.some((text) => code.includes(text))) return null;
    const replaced = from.reduce((text, part, i) => text.replaceAll(part, to[i]!), code);
    return { code: replaced, map: null };
  };
  const sources = Object.keys(WORKERS).map(address);
  const built = Object.values(WORKERS).map(address);
  const placeholders = sources.map((_, i) => placeholder(i));
  return {
    name: "worker-addresses",
    apply: "build",
    enforce: "pre",
    transform: (code) => replace(code, sources, placeholders),
    generateBundle(_, bundle) {
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== "chunk") continue;
        chunk.code = replace(chunk.code, placeholders, built)?.code ?? chunk.code;
      }
    },
  };
}
