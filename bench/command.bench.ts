/**
 * How long the built program takes to its help, beside what Node alone takes: the least of several
 * runs one after another.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { builtPackage } from "../test/support/package/built_package.ts";
import { table } from "./support/table.ts";

const RUNS = 15;
/** Milliseconds in which a person sees the help come at once. */
const AIM = 150;

const root = fileURLToPath(new URL("..", import.meta.url));
let folder: string;

// Inside the project, so that the program finds its package and its dependencies.
beforeAll(async () => {
  folder = mkdtempSync(join(root, "node_modules", ".wisp-command-"));
  cpSync(await builtPackage(), folder, { recursive: true });
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function least(args: readonly string[]): { readonly milliseconds: number; readonly text: string } {
  let milliseconds = Number.POSITIVE_INFINITY;
  let text = "";
  for (let run = 0; run < RUNS; run++) {
    const start = performance.now();
    const { status, stdout } = spawnSync(process.execPath, args, { encoding: "utf8" });
    milliseconds = Math.min(milliseconds, performance.now() - start);
    expect(status).toBe(0);
    text = stdout;
  }
  return { milliseconds, text };
}

test("the program comes to its help at once", () => {
  const wisp = join(folder, "wisp.js");
  const node = least(["--eval", ""]).milliseconds;
  const lines = [["--help"], ["--version"], ["launch_server", "--help"]].map((args) => {
    const { milliseconds, text } = least([wisp, ...args]);
    expect(text).toMatch(args[0] === "--version" ? /^\d/ : /^Usage: wisp/);
    return [
      `wisp ${args.join(" ")}`,
      `${milliseconds.toFixed(0)} ms`,
      `${(milliseconds / node).toFixed(2)} x Node alone`,
      `${(milliseconds / AIM).toFixed(2)} of the aim`,
    ];
  });
  console.log(`Node ${process.versions.node}\n\n${table(["command", "least", "", ""], lines)}`);
});
