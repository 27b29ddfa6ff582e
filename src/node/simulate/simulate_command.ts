/**
 * The command `wisp simulate`: what a model would do on devices that are not there.
 *
 * @module
 */
import { readFile, writeFile } from "node:fs/promises";
import type { WeightSource } from "../../checkpoint/source.ts";
import type { LoadOptions } from "../../engine/load/load_options.ts";
import { EngineError, InvalidRequestError } from "../../errors.ts";
import type { AdapterProfile } from "../../simulate/adapter_profile.ts";
import type { Link } from "../../simulate/link.ts";
import type { Layout, SimulateOptions } from "../../simulate/simulate.ts";
import type { CommandContext } from "../commands/command_context.ts";
import { kvCacheDtype } from "../options/kv_cache_dtype.ts";
import {
  formatOptions,
  OptionError,
  type OptionValues,
  parseOptions,
} from "../options/option_parser.ts";
import { SIMULATE_OPTIONS } from "./simulate_options.ts";

const USAGE = `Usage: wisp simulate [options]

Predicts what a model would do on devices that are not here: how many tokens they would cache, how long
steps would take, and what bounds them. The model is laid out as a start would lay it out, and the launches
and exchanges of its steps are counted one by one; how long each takes follows from the profile of an
adapter and the speed of a link. No weight is read, and unless --measure is given no GPU is used.
`;

const DEFAULT_MODEL = "deepseek-ai/DeepSeek-V3";
const DEFAULT_MEMORY = 80 * 2 ** 30;
const DEFAULT_RUNNING = 256;
const DEFAULT_BATCHES = [1, 8, 32, 128] as const;
/** Batches and prompts that an adapter is measured with. */
const MEASURED = { batches: [1, 4, 8, 16, 32], prompts: [32, 128], context: 256 } as const;

type Values = OptionValues<typeof SIMULATE_OPTIONS>;

/** A profile that cannot be read. */
class ProfileError extends EngineError {
  readonly code = "invalid_profile";
}

/**
 * @throws {OptionError} when the command line is wrong.
 * @throws {EngineError} when the model does not fit, or cannot be simulated.
 */
export async function simulateCommand(
  args: readonly string[],
  { stdout }: CommandContext,
): Promise<void> {
  const { values: options, positionals } = parseOptions(SIMULATE_OPTIONS, args);
  if (options.help) {
    stdout.write(`${USAGE}\n${formatOptions(SIMULATE_OPTIONS)}\n`);
    return;
  }
  if (positionals.length > 0) {
    throw new OptionError(`Cannot use argument "${positionals[0]}": only options are expected`);
  }
  const layout = layoutOf(options);
  const rates = await ratesOf(options);
  const { openSimulated } = await import("./simulated_model.ts");
  const model = await openSimulated(options.modelPath ?? DEFAULT_MODEL, options);
  try {
    const profile = withRates(await profileOf(options, model.source), rates);
    const asked = { profile, link: rates.link, layout, ...(await demandOf(options, model.source)) };
    const { simulate } = await import("../../simulate/simulate.ts");
    const report = await simulate(model.source, asked);
    const { formatSimulation } = await import("./simulate_report.ts");
    stdout.write(options.json ? `${JSON.stringify(report, null, 2)}\n` : formatSimulation(report));
  } finally {
    await model.close();
  }
}

/** @throws {OptionError} when devices and layout contradict each other. */
export function layoutOf(
  options: Pick<Values, "devices" | "tpSize" | "dpSize" | "prefillReplicas">,
): Layout {
  const { devices, dpSize, prefillReplicas } = options;
  const { tpSize = devices === undefined ? 1 : devices / dpSize } = options;
  if (!Number.isInteger(tpSize)) {
    throw new OptionError(
      `Cannot use option --devices ${devices}: --dp-size ${dpSize} does not divide it`,
    );
  }
  if (devices !== undefined && tpSize * dpSize !== devices) {
    const come = `--tp-size ${tpSize} and --dp-size ${dpSize} take ${tpSize * dpSize}`;
    throw new OptionError(`Cannot use option --devices ${devices}: ${come}`);
  }
  if (prefillReplicas >= dpSize && prefillReplicas > 0) {
    throw new OptionError(
      `Cannot use option --prefill-replicas ${prefillReplicas}: of --dp-size ${dpSize} none would generate`,
    );
  }
  const isApart = prefillReplicas > 0;
  return {
    tensorParallelSize: tpSize,
    replicas: isApart ? 0 : dpSize,
    prefillReplicas,
    decodeReplicas: isApart ? dpSize - prefillReplicas : 0,
  };
}

interface Rates {
  readonly link: Link;
  readonly copy: number | undefined;
  readonly fma: number | undefined;
}

/** @throws {OptionError} naming a rate that is none. */
async function ratesOf({ link, linkLatency, bandwidth, flops }: Values): Promise<Rates> {
  const { parseLink, parseRate } = await import("../../simulate/link.ts");
  const rate = (flag: string, text: string) => {
    const parsed = parseRate(text);
    if (parsed !== undefined) return parsed;
    throw new OptionError(
      `Cannot use option ${flag} ${text}: write a number and Gbit, Mbit, GB/s or MB/s`,
    );
  };
  const linkOf = () => {
    try {
      return parseLink(link, linkLatency / 1e6);
    } catch (error) {
      if (!(error instanceof InvalidRequestError)) throw error;
      const named = link.trimStart().startsWith("{") ? "with this JSON" : link;
      throw new OptionError(`Cannot use option --link ${named}: ${error.message}`);
    }
  };
  return {
    link: linkOf(),
    copy: bandwidth === undefined ? undefined : rate("--bandwidth", bandwidth),
    fma: flops === undefined ? undefined : flops * 1e12,
  };
}

function withRates(profile: AdapterProfile, { copy, fma }: Rates): AdapterProfile {
  return { ...profile, copy: copy ?? profile.copy, fma: fma ?? profile.fma };
}

async function profileOf(options: Values, source: WeightSource): Promise<AdapterProfile> {
  const { profile: path, measure } = options;
  const { H200, readProfile, profileJson } = await import("../../simulate/adapter_profile.ts");
  if (measure !== undefined) {
    if (path !== undefined) {
      throw new OptionError("Cannot use option --profile together with --measure: it makes one");
    }
    if (options.weightType !== undefined) {
      throw new OptionError(
        "Cannot use option --measure together with --weight-type: weights of that type are not here",
      );
    }
    const profile = await measured(source, await measuredOptions(options, source));
    await writeFile(measure, `${JSON.stringify(profileJson(profile), null, 2)}\n`);
    return profile;
  }
  if (path === undefined) return H200;
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, "utf8"));
  } catch (error) {
    throw new ProfileError(`Cannot read profile ${path}: ${(error as Error).message}`);
  }
  return readProfile(value, path);
}

/** What the model is loaded with to be measured: as what is predicted with the profile has it. */
export async function measuredOptions(
  { quantization, kvCacheDtype: dtype }: Pick<Values, "quantization" | "kvCacheDtype">,
  source: WeightSource,
): Promise<Pick<LoadOptions, "quantization" | "cacheDtype">> {
  return { quantization, cacheDtype: await kvCacheDtype(dtype, source) };
}

/** Of this machine's adapter, with the model's weights. */
async function measured(
  source: WeightSource,
  options: Pick<LoadOptions, "quantization" | "cacheDtype">,
): Promise<AdapterProfile> {
  const { Checkpoint } = await import("../../checkpoint/checkpoint.ts");
  const { openDevice } = await import("../device/device.ts");
  const { driverThreadsFor } = await import("../device/driver_threads.ts");
  const { measureProfile } = await import("../../simulate/measure_profile.ts");
  const checkpoint = await Checkpoint.open(source);
  const { matrixKernels } = await import("../../../kernels/matrix_self_test.ts");
  const driverThreads = await driverThreadsFor(source);
  // As a server has it.
  const { device } = await openDevice({ driverThreads, subgroupMatrices: true });
  return measureProfile(checkpoint, { ...options, device, matrixKernels }, MEASURED);
}

async function demandOf(
  options: Values,
  source: WeightSource,
): Promise<Pick<SimulateOptions, "demand" | "sharing" | "engine">> {
  const { inputTokens, outputTokens, chunkedPrefillSize, ranksPerAdapter } = options;
  const { batches = DEFAULT_BATCHES, maxRunningRequests = DEFAULT_RUNNING } = options;
  if (batches.some((batch) => batch < 1)) {
    throw new OptionError(`Cannot use option --batches ${batches}: they are numbers of at least 1`);
  }
  const { deviceMemory = DEFAULT_MEMORY, memFractionStatic, contextLength } = options;
  return {
    demand: { inputTokens, outputTokens, batches },
    sharing: ranksPerAdapter,
    engine: {
      deviceMemory,
      memFractionStatic,
      contextLength,
      maxRunningRequests,
      chunkedPrefillSize,
      maxRowsPerStep: Math.max(chunkedPrefillSize, maxRunningRequests),
      experts: { parallelSize: options.epSize },
      ...(await measuredOptions(options, source)),
    },
  };
}
