/** kernels/README.md: its tables say which files define and call the functions with several bodies. */
import { readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { readDocument } from "./support/package/documents.ts";

interface Shader {
  readonly name: string;
  readonly isPart: boolean;
  readonly code: string;
  readonly defines: readonly string[];
}

interface Row {
  readonly name: string;
  readonly definedIn: readonly string[];
  readonly calledBy: readonly string[];
}

const folder = fileURLToPath(new URL("../kernels", import.meta.url));
const shaders: readonly Shader[] = readdirSync(folder, { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".wgsl"))
  .map((path) => {
    const code = readFileSync(join(folder, path), "utf8").replace(/\/\/.*/g, "");
    const defines = Array.from(code.matchAll(/^fn (\w+)/gm), ([, name]) => name!);
    const isPart = path.startsWith("common");
    return { name: posix.basename(path.replaceAll("\\", "/")), isPart, code, defines };
  })
  .sort((a, b) => (a.name < b.name ? -1 : 1));

const calls = ({ code }: Shader, name: string) => new RegExp(`(?<!\\bfn )\\b${name}\\(`).test(code);
const namesOf = (list: readonly Shader[]) => list.map(({ name }) => name);

/** What the files say of a function. */
function rowOf(name: string): Row {
  const definers = shaders.filter(({ defines }) => defines.includes(name));
  const callers = shaders.filter((one) => !definers.includes(one) && calls(one, name));
  return { name, definedIn: namesOf(definers), calledBy: namesOf(callers) };
}

/** Whether several parts define it, or several files and a part that does not calls it. */
function hasBodies(name: string): boolean {
  const definers = shaders.filter(({ defines }) => defines.includes(name));
  if (definers.filter(({ isPart }) => isPart).length > 1) return true;
  const callers = shaders.filter((one) => one.isPart && !definers.includes(one));
  return definers.length > 1 && callers.some((one) => calls(one, name));
}

/** The rows of the page's tables. */
const rows: readonly Row[] = Array.from(
  readDocument("kernels/README.md").text.matchAll(/^\| `(\w+)` \| .+ \| (.+) \| (.+) \|$/gm),
  ([, name, defined, called]) => {
    const files = (cell: string) =>
      Array.from(cell.matchAll(/`(\w+\.wgsl)`/g), ([, file]) => file!);
    return { name: name!, definedIn: files(defined!), calledBy: files(called!) };
  },
);

test("a file is known by its name alone", () => {
  const names = namesOf(shaders);
  expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
});

test("every function with several bodies has a row, and no other", () => {
  const functions = new Set(shaders.flatMap(({ defines }) => defines));
  const wanted = [...functions].filter(hasBodies).sort();
  expect(wanted.length).toBeGreaterThan(40);
  expect(rows.map(({ name }) => name).sort()).toEqual(wanted);
});

test.each(rows)("$name is in the files that the page names", (row) => {
  expect(row).toEqual(rowOf(row.name));
});
