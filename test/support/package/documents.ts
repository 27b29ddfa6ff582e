/**
 * The documents of the repository, and what stands in them.
 *
 * @module
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../..", import.meta.url));

export interface Document {
  /** Relative to the repository. */
  readonly path: string;
  readonly text: string;
}

export interface Snippet {
  readonly language: string;
  readonly code: string;
}

/** @param path Relative to the repository. */
export function readDocument(path: string): Document {
  return { path, text: readFileSync(join(root, path), "utf8") };
}

/** The pages of `docs`. */
export const PAGES: readonly Document[] = readdirSync(join(root, "docs"))
  .filter((name) => name.endsWith(".md"))
  .sort()
  .map((name) => readDocument(`docs/${name}`));

export const README = readDocument("README.md");

/** All that a reader is led to. */
export const DOCUMENTS: readonly Document[] = [
  README,
  ...["CONTRIBUTING.md", "bench/README.md", "examples/README.md", "kernels/README.md"].map(
    readDocument,
  ),
  ...PAGES,
];

/** The code that stands in a document between fences, in order. */
export function snippetsOf({ text }: Document): readonly Snippet[] {
  const fences = /^```(\w*)\n(.*?)^```$/gms;
  return [...text.matchAll(fences)].map(([, language, code]) => ({
    language: language!,
    code: code!,
  }));
}

/** A document without the code between its fences. */
export function proseOf({ text }: Document): string {
  return text.replace(/^```.*?^```$/gms, "");
}

/** Whether a snippet is a whole program for Node. */
export function runsInNode({ language, code }: Snippet): boolean {
  return language === "js" && code.startsWith("import ") && !code.includes("wisp-llm/browser");
}
