/** README and the pages it leads to: their size, their links, and the files they name. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { DOCUMENTS, type Document, PAGES, proseOf, README } from "./support/package/documents.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Folders with files that pages name. */
const NAMED = ["src", "kernels", "test", "bench", "examples", "packaging", "deploy"];
const files = NAMED.flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((name) =>
    posix.join(folder, name),
  ),
).filter((path) => !path.includes("node_modules"));
const names = new Set(files.map((path) => posix.basename(path)));

/** The part of an address behind "#", as GitHub makes it of a heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}

function anchorsOf(path: string): readonly string[] {
  const text = proseOf({ path, text: readFileSync(join(root, path), "utf8") });
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => anchorOf(heading!));
}

/** Links of a document that lead nowhere in the repository. */
function brokenLinks(document: Document): readonly string[] {
  const targets = [...proseOf(document).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target!);
  return targets.filter((target) => {
    if (/^https?:/.test(target)) return false;
    const [file = "", anchor] = target.split("#");
    const path = file === "" ? document.path : posix.join(posix.dirname(document.path), file);
    if (!existsSync(join(root, path))) return true;
    return anchor !== undefined && !anchorsOf(path).includes(anchor);
  });
}

/** Files and folders of ours in backquotes that do not exist. */
function missingPaths(document: Document): readonly string[] {
  const spans = [...proseOf(document).matchAll(/`([^`\s]+)`/g)].map(([, span]) => span!);
  return spans.filter((span) => {
    const [folder] = span.split("/");
    if (/[*(){}<>$]/.test(span)) return false;
    if (NAMED.includes(folder!)) return !existsSync(join(root, span)) && !isBench(span);
    return /^[\w/]+\.(ts|wgsl)$/.test(span) && !names.has(posix.basename(span));
  });
}

/** Files that a sentence puts into a folder in which they are not: "`a.ts` and `b.ts` of `src/c`". */
function misplacedFiles(document: Document): readonly string[] {
  const files = "((?:`[\\w.]+\\.ts`(?: \\([^)]*\\))?(?:, | and )?)+)";
  const folder = "`((?:src|kernels)[\\w/]*)`";
  const behind = [...proseOf(document).matchAll(new RegExp(`${files} of ${folder}`, "g"))];
  const before = [...proseOf(document).matchAll(new RegExp(`${folder}: ${files}`, "g"))];
  const pairs = [
    ...behind.map(([, list, home]) => ({ list: list!, home: home! })),
    ...before.map(([, home, list]) => ({ list: list!, home: home! })),
  ];
  return pairs.flatMap(({ list, home }) =>
    [...list.matchAll(/`([\w.]+\.ts)`/g)]
      .map(([, name]) => name!)
      .filter((name) => !isUnder(home, name))
      .map((name) => `${home}/${name}`),
  );
}

/** Whether a folder has a file of this name, in a folder of its own too. */
function isUnder(folder: string, name: string): boolean {
  return files.some((path) => path.startsWith(`${folder}/`) && posix.basename(path) === name);
}

/** `bench/gpu` is what `npm run bench` is told to run: files that begin so. */
function isBench(span: string): boolean {
  return span.startsWith("bench/") && files.some((path) => path.startsWith(span));
}

test("README is at most 120 lines and 8 KiB", () => {
  expect(README.text.split("\n").length - 1).toBeLessThanOrEqual(120);
  expect(Buffer.byteLength(README.text)).toBeLessThanOrEqual(8192);
});

test("README leads to every page of docs", () => {
  const missing = PAGES.filter(({ path }) => !README.text.includes(`](${path}`));
  expect(missing.map(({ path }) => path)).toEqual([]);
});

describe.each(DOCUMENTS.map((document) => [document.path, document] as const))("%s", (_, page) => {
  test("links resolve", () => expect(brokenLinks(page)).toEqual([]));

  test("files and folders that it names exist", () => {
    expect([...missingPaths(page), ...misplacedFiles(page)]).toEqual([]);
  });
});

test("a link to a missing file or heading is found, and a missing folder", () => {
  const links = "[a](http.md#no-such) [b](none.md) [c](http.md#errors)";
  const text = `${links} \`src/none\` \`no_such.ts\`, \`stop.ts\` and \`auth.ts\` of \`src/engine\``;
  const page = { path: "docs/page.md", text };
  expect(brokenLinks(page)).toEqual(["http.md#no-such", "none.md"]);
  expect(missingPaths(page)).toEqual(["src/none", "no_such.ts"]);
  expect(misplacedFiles(page)).toEqual(["src/engine/no_such.ts", "src/engine/auth.ts"]);
});

describe("docs/architecture.md", () => {
  const page = PAGES.find(({ path }) => path === "docs/architecture.md")!;

  test("every folder of the product has a line", () => {
    const table = page.text.slice(page.text.indexOf("## The folders"));
    const folders = files.filter(
      (path) => /^(src|kernels)\//.test(path) && statSync(join(root, path)).isDirectory(),
    );
    const silent = folders.filter((folder) => !table.includes(`\n| \`${folder}\` |`));
    expect(silent).toEqual([]);
  });
});
