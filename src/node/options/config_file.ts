/**
 * Options from a JSON file: an object with the names of options, without their dashes, as keys.
 *
 * @module
 */
import { readFile } from "node:fs/promises";
import {
  foreignProblem,
  isSupported,
  joinOr,
  nearFlags,
  OptionError,
  type OptionRow,
  type OptionTable,
  type ParsedOptions,
  parseOptions,
  readBytes,
  wantedInstead,
} from "./option_parser.ts";

/** Rows that only a command line can have. */
const NOT_IN_FILES: ReadonlySet<string> = new Set(["config", "help"]);

/**
 * Reads a command line and the file that its `--config` names; the command line wins.
 *
 * @throws {OptionError} as `parseOptions`, and naming the file and the key to blame.
 */
export async function readOptions<const T extends OptionTable & { readonly config: OptionRow }>(
  table: T,
  args: readonly string[],
): Promise<ParsedOptions<T>> {
  const parsed = parseOptions(table, args);
  const { config: path, help } = parsed.values as { config?: string; help?: boolean };
  if (path === undefined || help) return parsed;
  return parseOptions(table, args, await readConfigFile(path, table));
}

async function readConfigFile(
  path: string,
  table: OptionTable,
): Promise<Readonly<Record<string, unknown>>> {
  const values: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(await readObject(path))) {
    const refuse = (problem: string) => {
      throw new OptionError(`Cannot use ${path}: ${JSON.stringify(name)} ${problem}`);
    };
    const found = Object.entries(table).find(([, row]) => row.flags.includes(`--${name}`));
    if (found === undefined) {
      const instead = foreignProblem(table, `--${name}`);
      return refuse(
        instead === undefined ? `is no option${hint(table, name)}` : `is no option: ${instead}`,
      );
    }
    const [key, row] = found;
    if (NOT_IN_FILES.has(key)) return refuse("can only be given on the command line");
    if (Object.hasOwn(values, key)) return refuse("is given twice, by two of its names");
    values[key] = readValue(row, value, refuse);
  }
  return values;
}

async function readObject(path: string): Promise<object> {
  const text = await readFile(path, "utf8").catch((cause: NodeJS.ErrnoException) => {
    const problem = cause.code === "ENOENT" ? "there is no such file" : cause.message;
    throw new OptionError(`Cannot use ${path}: ${problem}`, { cause });
  });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new OptionError(`Cannot use ${path}: ${(cause as Error).message}`, { cause });
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw new OptionError(`Cannot use ${path}: it must be a JSON object`);
}

/** @param refuse Throws; its argument reads after the option's name. */
function readValue(row: OptionRow, given: unknown, refuse: (problem: string) => never): unknown {
  // A text alone is a list of it.
  const value = row.kind === "strings" && typeof given === "string" ? [given] : given;
  const isList = row.kind === "integers" || row.kind === "strings";
  if (isList && !Array.isArray(value)) refuse(`must be a list, got ${JSON.stringify(value)}`);
  const isSize = row.kind === "bytes" && typeof value === "string";
  const read = isSize ? readBytes(value as string) : value;
  for (const item of isList ? (read as unknown[]) : [read]) {
    const wanted = wantedInstead(row, item);
    if (wanted === undefined) continue;
    refuse(`must be ${wanted}, got ${JSON.stringify(isSize ? value : item)}`);
  }
  const isOff = row.kind === "flag" && value === false;
  if (!isOff && !isSupported(row, read)) refuse(`is not supported yet as ${JSON.stringify(value)}`);
  return read;
}

function hint(table: OptionTable, name: string): string {
  const near = nearFlags(table, `--${name}`).map((flag) => JSON.stringify(flag.slice(2)));
  return near.length === 0 ? "" : ` (did you mean ${joinOr(near)}?)`;
}
