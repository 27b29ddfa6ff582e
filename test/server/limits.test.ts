/** `docs/limits.md`: each figure is that of the option or the constant that it names, and none is missing. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { LAUNCH_OPTIONS } from "../../src/node/options/options.ts";
import { SOCKET_LIMITS } from "../../src/node/serve/socket_limits.ts";
import { readDocument } from "../support/package/documents.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const text = readDocument("docs/limits.md").text;

interface Row {
  readonly limit: string;
  /** Figures of the second column, in bytes, milliseconds or pieces. */
  readonly figures: readonly number[];
  /** What the third column names. */
  readonly flags: readonly string[];
  readonly constants: readonly string[];
  /** Where the constants are. */
  readonly file: string | undefined;
}

const UNITS: Readonly<Record<string, number>> = {
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  s: 1000,
};

const ROWS: readonly Row[] = text
  .split("\n")
  .filter((line) => line.startsWith("| ") && !line.startsWith("| limit "))
  .map((line) => {
    const [limit, figures, named] = line.slice(2).split(" | ") as [string, string, string];
    return {
      limit,
      figures: [...figures.matchAll(/(\d[\d,]*)(?: (KiB|MiB|GiB|s)\b)?/g)].map(
        ([, digits, unit]) => Number(digits!.replaceAll(",", "")) * (UNITS[unit ?? ""] ?? 1),
      ),
      flags: [...named.matchAll(/`(--[\w-]+)`/g)].map(([, flag]) => flag!),
      constants: [...named.matchAll(/`([A-Z][\w.]+)`/g)].map(([, name]) => name!),
      file: /`(src\/[\w/]+\.ts)`/.exec(named)?.[1],
    };
  });

/** The figure of an option, in the table's units; undefined where it has none that is fixed. */
function figureOfOption(flag: string): number | undefined {
  const row = Object.values(LAUNCH_OPTIONS).find(({ flags }) =>
    (flags as readonly string[]).includes(flag),
  );
  expect(row, flag).toBeDefined();
  const { default: value, defaultText, value: unit } = row as Record<string, unknown>;
  if (typeof value === "number") return unit === "SECONDS" ? 1000 * value : value;
  const size = /^(\d+)M$/.exec(String(defaultText));
  return size === null ? undefined : Number(size[1]) * 2 ** 20;
}

/** Those that count seconds or MiB, by their names. */
function scaleOf(name: string): number {
  if (/seconds$/i.test(name) || name === "MAX_TIMEOUT") return 1000;
  return /_(MIB|MB)$/.test(name) ? 2 ** 20 : 1;
}

async function figureOfConstant(file: string, name: string): Promise<number> {
  const module = (await import(pathToFileURL(join(root, file)).href)) as Record<string, unknown>;
  let value: unknown = module;
  for (const part of name.split(".")) value = (value as Record<string, unknown>)[part];
  expect(value, `${name} of ${file}`).toEqual(expect.any(Number));
  return scaleOf(name) * (value as number);
}

test.each(ROWS)("$limit", async ({ figures, flags, constants, file }) => {
  const expected = flags.map(figureOfOption).filter((figure) => figure !== undefined);
  for (const name of constants) expected.push(await figureOfConstant(file!, name));
  expect(figures).toEqual(expected);
  expect(flags.length + constants.length).toBeGreaterThan(0);
});

/** Where limits of what clients and files may say are, but for those of the rooms below. */
const FOLDERS = [
  ...["src/request_limits.ts", "src/logprobs.ts", "src/http", "src/server", "src/engine/text"],
  ...["src/text/limits", "src/engine/grammar", "src/checkpoint"],
];
/** Named for what is no limit of a client or a file. */
const OTHERS = new Set([
  "MAX_DEPTH of src/http/json_part.ts", // MAX_JSON_DEPTH by another name.
  "MAX_SIZE of src/engine/text/text_size.ts", // Counting ends there.
  "MAX_F32 of src/server/fields/sampling_fields.ts", // Of numbers, not of sizes.
  "MOST_KEPT of src/http/long_json.ts", // A cache.
]);

test("no limit is missing", () => {
  const named = new Set(
    ROWS.flatMap(({ constants, file }) => constants.map((name) => `${name} of ${file}`)),
  );
  const files = FOLDERS.flatMap((path) => {
    if (path.endsWith(".ts")) return [path];
    const names = readdirSync(join(root, path), { recursive: true, encoding: "utf8" });
    return names.filter((name) => name.endsWith(".ts")).map((name) => `${path}/${name}`);
  });
  const limits = files.flatMap((file) => {
    const source = readFileSync(join(root, file), "utf8");
    const constants = source.matchAll(/^(?:export )?const ((?:MAX|MOST)_\w+) = /gm);
    return [...constants].map(([, name]) => `${name} of ${file}`);
  });
  expect(limits.filter((limit) => !named.has(limit) && !OTHERS.has(limit))).toEqual([]);
  const sockets = Object.keys(SOCKET_LIMITS).map((key) => `SOCKET_LIMITS.${key}`);
  const others = ["SOCKET_LIMITS.lookTime", "SOCKET_LIMITS.sendTime"];
  const table = ROWS.flatMap(({ constants }) => constants);
  expect(sockets.filter((key) => !table.includes(key)).sort()).toEqual(others);
});
