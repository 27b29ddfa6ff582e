/**
 * Options of how what experts made of rows gets from rank to rank.
 *
 * @module
 */
import { readFileSync, statSync } from "node:fs";
import { jsonExcess } from "../../checkpoint/json_limits.ts";
import { ALL_TO_ALL_MODES, type AllToAllMode } from "../../parallel/experts/expert_options.ts";
import { OptionError, type OptionTable, type OptionValues } from "../options/option_parser.ts";

const GROUP = "Experts";

export const ALL_TO_ALL_OPTIONS = {
  moeA2aBackend: {
    flags: ["--moe-a2a-backend"],
    kind: "string",
    value: "NAME",
    choices: ["none", "deepep"],
    default: "none",
    help:
      "where what experts made of a row goes: to all ranks (none), or to one that adds it up for all " +
      "(deepep; experts are shared out over all --tp-size ranks then)",
    group: GROUP,
  },
  deepepMode: {
    flags: ["--deepep-mode"],
    kind: "string",
    value: "NAME",
    choices: ALL_TO_ALL_MODES,
    default: "auto",
    help:
      "steps in which deepep has one rank add a row up: those with rows of prompts (auto), all " +
      "(normal), or none (low_latency: one exchange in place of two)",
    group: GROUP,
  },
  deepepConfig: {
    flags: ["--deepep-config"],
    kind: "string",
    value: "FILE",
    defaultText: "none",
    help:
      "JSON, or a file with it, of sizes that exchanges are cut to on other servers; it is checked, and " +
      "has no effect",
    group: GROUP,
  },
} as const satisfies OptionTable;

type AllToAllValues = OptionValues<typeof ALL_TO_ALL_OPTIONS>;

/** Bytes of a file of sizes, at most. */
export const MAX_DEEPEP_CONFIG_BYTES = 65_536;

/**
 * What the options are to an engine.
 *
 * @throws {OptionError} naming one that does not go with the others.
 */
export function allToAllMode({
  moeA2aBackend: backend,
  deepepMode: mode,
  deepepConfig: config,
  ...others
}: AllToAllValues & { readonly epSize: number; readonly tpSize: number }):
  | AllToAllMode
  | undefined {
  if (backend === "deepep") {
    requireWhole(others);
    if (config !== undefined) checkConfig(config);
    return mode;
  }
  const [given] = [
    ...(mode === "auto" ? [] : [`--deepep-mode ${mode}`]),
    ...(config === undefined ? [] : [`--deepep-config ${config}`]),
  ];
  if (given === undefined) return undefined;
  throw new OptionError(
    `Cannot use option ${given} without --moe-a2a-backend deepep: it would change nothing`,
  );
}

/** Every rank has experts of its own. */
function requireWhole({ epSize, tpSize }: { readonly epSize: number; readonly tpSize: number }) {
  if (epSize === 1 || epSize === tpSize) return;
  throw new OptionError(
    `Cannot use option --ep-size ${epSize} with --moe-a2a-backend deepep: that has one part for each ` +
      `of the ${tpSize} ranks of --tp-size`,
  );
}

/** A sentence for each of them that does less than its name says. */
export function allToAllWarnings({
  moeA2aBackend,
  deepepConfig,
  tpSize,
}: Pick<AllToAllValues, "moeA2aBackend" | "deepepConfig"> & {
  readonly tpSize: number;
}): readonly string[] {
  if (moeA2aBackend !== "deepep") return [];
  return [
    ...(tpSize === 1
      ? ["--moe-a2a-backend deepep changes nothing: one rank has all experts, and --tp-size is 1"]
      : []),
    ...(deepepConfig === undefined
      ? []
      : [
          "--deepep-config has no effect: exchanges are sent whole, and no part of a device by them",
        ]),
  ];
}

/** What goes over the wire; undefined where nothing does. */
export function allToAllSentence({
  moeA2aBackend,
  deepepMode,
  tpSize,
}: Pick<AllToAllValues, "moeA2aBackend" | "deepepMode"> & {
  readonly tpSize: number;
}): string | undefined {
  if (moeA2aBackend !== "deepep" || tpSize === 1) return undefined;
  return (
    `Experts: deepep (${deepepMode}), with f32 on the wire, as BF16 or FP8 would change bits; ` +
    "all ranks have the rows in front of them, so that none is sent there"
  );
}

const PARTS = ["normal_dispatch", "normal_combine"] as const;
const KEYS = [
  "num_sms",
  "num_max_nvl_chunked_send_tokens",
  "num_max_nvl_chunked_recv_tokens",
  "num_max_rdma_chunked_send_tokens",
  "num_max_rdma_chunked_recv_tokens",
] as const;
type Sizes = Readonly<Partial<Record<(typeof KEYS)[number], number>>>;

/** @throws {OptionError} naming what is wrong with it. */
function checkConfig(value: string): void {
  const text = value.trimStart().startsWith("{") ? value : readConfig(value);
  const excess = jsonExcess(text);
  if (excess !== undefined) throw problem(value, excess);
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw problem(value, `it is no JSON: ${(error as Error).message}`);
  }
  const parts = objectOf(value, parsed, { name: "it", keys: PARTS });
  const [dispatch, combine] = PARTS.map((name) => sizesOf(value, parts[name] ?? {}, name));
  if (dispatch!.num_sms !== combine!.num_sms) {
    throw problem(value, "num_sms of normal_dispatch and of normal_combine differ");
  }
}

function sizesOf(value: string, part: unknown, name: string): Sizes {
  const sizes = objectOf(value, part, { name, keys: KEYS });
  for (const [key, size] of Object.entries(sizes)) {
    if (Number.isSafeInteger(size) && (size as number) > 0) continue;
    throw problem(value, `${name}.${key} is no whole number above 0`);
  }
  const { [KEYS[1]]: send, [KEYS[2]]: receive } = sizes as Sizes;
  const { [KEYS[3]]: farSend, [KEYS[4]]: farReceive } = sizes as Sizes;
  const isLess = (one: number | undefined, other: number | undefined) =>
    one === undefined || other === undefined || one < other;
  if (!isLess(send, receive)) throw problem(value, `${KEYS[1]} is not less than ${KEYS[2]}`);
  const rounds = farSend === undefined || farReceive === undefined ? 2 : farReceive / farSend;
  if (Math.ceil(rounds) < 2) throw problem(value, `${KEYS[4]} is not twice ${KEYS[3]}`);
  return sizes as Sizes;
}

function objectOf(
  value: string,
  given: unknown,
  { name, keys }: { readonly name: string; readonly keys: readonly string[] },
): Readonly<Record<string, unknown>> {
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw problem(value, `${name} is no object`);
  }
  const unknown = Object.keys(given).find((key) => !keys.includes(key));
  if (unknown !== undefined) {
    throw problem(value, `${name} has "${unknown.slice(0, 80)}", not ${keys.join(", ")}`);
  }
  return given as Readonly<Record<string, unknown>>;
}

function readConfig(path: string): string {
  try {
    const { size } = statSync(path);
    if (size <= MAX_DEEPEP_CONFIG_BYTES) return readFileSync(path, "utf8");
    throw problem(path, `it has ${size} bytes, over the limit of ${MAX_DEEPEP_CONFIG_BYTES}`);
  } catch (error) {
    if (error instanceof OptionError) throw error;
    throw problem(path, `it is no JSON object, and no file: ${(error as Error).message}`);
  }
}

const problem = (value: string, state: string) => {
  const named = value.trimStart().startsWith("{") ? "with this JSON" : value;
  return new OptionError(`Cannot use option --deepep-config ${named}: ${state}`);
};
