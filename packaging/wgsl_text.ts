/**
 * Kernels as the package carries them: WGSL without comments, indents and empty lines.
 *
 * Declarations keep their lines, also where texts are joined, because the engine finds constants at
 * the start of a line.
 *
 * @module
 */
import type { Plugin } from "vite";

/** Takes what only readers need out of a kernel's text. WGSL has no strings that could hold "//". */
export function shortenWgsl(text: string): string {
  if (text.includes("/*")) throw new Error("Cannot shorten WGSL with a block comment");
  return text
    .split("\n")
    .map((line) => line.replace(/\/\/.*/, "").trim())
    .filter((line) => line !== "")
    .map((line) => `${line}\n`)
    .join("");
}

export function wgslText(): Plugin {
  return {
    name: "wgsl-text",
    enforce: "post",
    transform(code, id) {
      if (!id.endsWith(".wgsl?raw")) return null;
      const [begin, end] = [code.indexOf('"'), code.lastIndexOf('"') + 1];
      const text: string = JSON.parse(code.slice(begin, end));
      return { code: `export default ${JSON.stringify(shortenWgsl(text))};`, map: null };
    },
  };
}
