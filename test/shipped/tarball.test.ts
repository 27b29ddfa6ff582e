/** What the tarball has in it, and how large it is. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { builtinModules } from "node:module";
import { join } from "node:path";
import { expect, inject, test } from "vitest";
import { shipped } from "./support/wisp.ts";

const installed = () => join(shipped(), "node_modules", "wisp-llm");

interface Manifest {
  readonly bin: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const manifest = () =>
  JSON.parse(readFileSync(join(installed(), "package.json"), "utf8")) as Manifest;

function files(): readonly string[] {
  const all = readdirSync(installed(), { recursive: true, encoding: "utf8" });
  return all.filter((name) => statSync(join(installed(), name)).isFile());
}

test("the tarball has the built files, the embedded model and three texts", () => {
  const places = new Set(files().map((name) => name.replace(/\/.*/s, "")));
  expect([...places].sort()).toEqual([
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "dist",
    "examples",
    "package.json",
  ]);
  const examples = files().filter((name) => name.startsWith("examples/"));
  expect(examples.every((name) => name.startsWith("examples/tiny-deepseek-v3/"))).toBe(true);
  expect(
    files().filter((name) => /\.test\.|(?<!\.d)\.ts$|tokenizers\/.*\.map$/.test(name)),
  ).toEqual([]);
});

test("the tarball has at most 18.4 MB, and 44.2 MB unpacked", () => {
  const bytes = files().reduce((sum, name) => sum + statSync(join(installed(), name)).size, 0);
  console.log(
    `The tarball has ${(inject("shipped").tarballBytes / 1e6).toFixed(1)} MB in ` +
      `${files().length} files, ${(bytes / 1e6).toFixed(1)} MB unpacked`,
  );
  expect(inject("shipped").tarballBytes).toBeLessThan(18.4e6);
  expect(bytes).toBeLessThan(44.2e6);
});

test("every address of the manifest is a file, and the program can be run", () => {
  const { bin, exports } = manifest();
  const paths = [bin, ...Object.values(exports)].flatMap((entry) =>
    typeof entry === "string" ? [entry] : Object.values(entry),
  );
  expect(paths.filter((path) => !existsSync(join(installed(), path)))).toEqual([]);
  expect(readFileSync(join(installed(), bin.wisp!), "utf8")).toMatch(/^#!\/usr\/bin\/env node\n/);
});

test("Node's files import what the package depends on, and nothing else", () => {
  const { dependencies, optionalDependencies } = manifest();
  const known = new Set([
    ...Object.keys(dependencies),
    ...Object.keys(optionalDependencies ?? {}),
    ...builtinModules,
  ]);
  const ofNode = files().filter((name) => /^dist\/(chunks\/|node|wisp|command).*\.js$/.test(name));
  const imported = ofNode.flatMap((name) => {
    const code = readFileSync(join(installed(), name), "utf8");
    const froms = code.matchAll(/(?:^(?:import|export)\b[^"'`;]*|\bimport\()["']([^"']+)["']/gm);
    return [...froms].map(([, from]) => from!);
  });
  const packages = imported
    .filter((from) => !/^[./]/.test(from))
    .map((from) => from.replace(/^node:/, ""))
    .map((from) => /^(@[^/]+\/[^/]+|[^/]+)/.exec(from)![1]!);
  expect(packages).toContain("hono");
  expect([...new Set(packages)].filter((name) => !known.has(name))).toEqual([]);
});
