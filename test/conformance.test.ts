/** docs/conformance.md names every option and endpoint, and tests that exist. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { OptionRow } from "../src/node/options/option_parser.ts";
import { LAUNCH_OPTIONS } from "../src/node/options/options.ts";
import { RESERVED_ROUTER_OPTIONS } from "../src/node/route/reserved_router_options.ts";
import { ROUTER_OPTIONS } from "../src/node/route/router_options.ts";
import { ROUTER_ENDPOINTS } from "../src/router/endpoints.ts";
import { ENDPOINT_PATHS } from "../src/server/routes/endpoint_paths.ts";
import { UNSUPPORTED_ENDPOINTS } from "../src/server/routes/unsupported_endpoints.ts";

const read = (path: string) =>
  readFileSync(fileURLToPath(new URL(`../${path}`, import.meta.url)), "utf8");

const document = read("docs/conformance.md");
/** What stands in backquotes in the first cell of a row, the second cell, and the third. */
const rows = [...document.matchAll(/^\| (`.*?) \| (.*?) \|(?: (.*) \|)?$/gm)].map(
  ([, names, state, shown]) => ({
    names: [...names!.matchAll(/`([^`]+)`/g)].map(([, name]) => name!),
    state: state!,
    test: shown?.replaceAll("`", ""),
  }),
);

/** Options of which so many are tested that they have files of their own. */
const GROUPS = ["disaggregation", "expert", "json", "rank", "speculation"];

test("each option has a row with its state and its test", () => {
  const files = ["options.test", ...GROUPS.map((name) => `support/${name}_options`)];
  const tests = files.map((name) => read(`test/shipped/${name}.ts`)).join("");
  for (const [key, { flags }] of Object.entries(LAUNCH_OPTIONS)) {
    const row = rows.find(({ names }) => names.some((name) => flags.some((flag) => flag === name)));
    expect(row, flags[0]).toMatchObject({ state: "works", test: key });
    expect(tests).toMatch(new RegExp(`\\n +${key}: `));
  }
});

test("each option of the router has a row with its state, and a test that there is", () => {
  const section = document.slice(document.indexOf("## Options of the router"));
  const ofRouter = section.slice(0, section.indexOf("## Variables")).split("\n");
  for (const [key, { flags }] of Object.entries<OptionRow>(ROUTER_OPTIONS)) {
    const names = flags.map((flag) => `\`${flag}\``).join(", ");
    const row = ofRouter.find((line) => line.startsWith(`| ${names} |`));
    const [, , state, shown] = (row ?? "").split(" | ").join("|").split("|");
    expect(state === "refused", flags[0]).toBe(Object.hasOwn(RESERVED_ROUTER_OPTIONS, key));
    expect(read(shown!.trim()), flags[0]).toContain("test(");
  }
});

test("each endpoint of the router has a row, and a test that there is", () => {
  const section = document.slice(document.indexOf("## Endpoints of the router"));
  const ofRouter = section.slice(0, section.indexOf("## Variables"));
  for (const path of ROUTER_ENDPOINTS.flatMap(({ paths }) => paths)) {
    const name = path.replace(/:\w+\{.*\}/, "{id}");
    const [, file] = new RegExp(`^\\| \`${name}\` \\| (\\S+) \\|$`, "m").exec(ofRouter) ?? [];
    expect(file, path).toBeDefined();
    expect(read(file!), path).toContain(name.replace("/{id}", ""));
  }
});

test("each endpoint has a row with its state", () => {
  for (const path of ENDPOINT_PATHS) {
    const name = path.replace(/:\w+(\{.*\})?/, "{id}");
    const row = rows.find(({ names }) => names[0] === name);
    const state = UNSUPPORTED_ENDPOINTS.has(path) ? "400 and why" : "works";
    expect(row, path).toMatchObject({ state });
  }
});

test("each field has a test of its name", () => {
  const files = ["generate_fields", "chat_fields"].map((name) => `test/shipped/${name}.test.ts`);
  const tests = files.map(read).join("");
  const fields = document.slice(document.indexOf("## Fields of `POST /generate`"));
  const named = fields.slice(0, fields.indexOf("## Endpoints")).matchAll(/^\| `(\w+)` \|/gm);
  const names = [...named].map(([, name]) => name!);
  expect(names.length).toBeGreaterThan(30);
  for (const name of names) expect(tests).toContain(`\n  ${name}: `);
});
