/**
 * What `wisp launch_server` and `wisp serve` run once their options are read: an engine behind a
 * socket, until a signal comes.
 *
 * @module
 */

import { tmpdir } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { Hono } from "hono";
import { EngineError, GroupError } from "../../errors.ts";
import type { FinishReason, GenerationEngine } from "../../generation.ts";
import { formatProfile } from "../../profile.ts";
import { createApp } from "../../server/app.ts";
import { checkSamplingParams } from "../../server/fields/request_defaults.ts";
import type { Lifecycle } from "../../server/guard/lifecycle.ts";
import { modelNamesOf } from "../../server/model_name.ts";
import type { EngineObserver } from "../../server/observe/observe.ts";
import type { WebPage } from "../../server/routes/web_page.ts";
import type { CommandContext } from "../commands/command_context.ts";
import { requireUsableDisaggregation } from "../disaggregation/disaggregation_options.ts";
import type { OpenedRole } from "../disaggregation/open_role.ts";
import { mediaOf, requireUsableMedia } from "../media/media_options.ts";
import { ExpertRecordFiles } from "../observe/expert_record_files.ts";
import { profileKernels } from "../observe/kernel_profile.ts";
import { Logger } from "../observe/logger.ts";
import { ProfileFiles } from "../observe/profile_files.ts";
import type { PrometheusMetrics } from "../observe/prometheus.ts";
import { type RequestLogLevel, requestLog } from "../observe/request_log.ts";
import { startWatchdog } from "../observe/watchdog.ts";
import {
  accessOf,
  describeAccess,
  describeOptions,
  requireUsableAccess,
} from "../options/access_options.ts";
import { idleTransferWorkers } from "../options/engine_variables.ts";
import { environmentWarnings } from "../options/environment.ts";
import { OptionError } from "../options/option_parser.ts";
import { LAUNCH_OPTIONS, type LaunchOptions } from "../options/options.ts";
import { requireOneKindOfParsers } from "../options/parser_options.ts";
import { requireConsistent } from "../options/server_options.ts";
import { packageVersion } from "../package_root.ts";
import { idleGroupsOptions } from "../ranks/attention_group_options.ts";
import { idleGroupOptions } from "../ranks/group_options.ts";
import { idleReplicaOptions } from "../replicas/replica_options.ts";
import { type RunningServer, requireFreeAddress, serve } from "./http.ts";
import { drainOnSignal, LAST_WORDS } from "./shutdown.ts";
import { sleepsWhenIdle } from "./sleep_when_idle.ts";
import { socketLimits } from "./socket_limits.ts";
import type { StartedEngine } from "./start_engine.ts";
import { lineReport } from "./start_report.ts";
import { StartTimes } from "./start_times.ts";
import { openWebPage, webPageAddress } from "./web_page_files.ts";

/** Tokens of the request that the server sends itself before it says that it is ready. */
const WARM_UP_TOKENS = 4;

/**
 * Loads the model and serves it until a signal comes.
 *
 * @throws {LaunchError} when the engine is gone for good.
 */
export async function serveModel(options: LaunchOptions, context: CommandContext): Promise<void> {
  requireConsistent(options);
  requireOneKindOfParsers(options);
  requireUsableAccess(options);
  requireUsableMedia(options);
  withPreferred(options, (params) => checkSamplingParams(params ?? {}));
  requireUsableDisaggregation(options);
  const idleVariables = idleTransferWorkers(process.env, options.disaggregationMode);
  await requireFreeAddress(options);
  if (options.disaggregationMode === "prefill") {
    await requireFreeAddress({ host: "127.0.0.1", port: options.disaggregationBootstrapPort });
  }
  const { stderr, processes = "none" } = context;
  const log = new Logger({ stderr, level: options.logLevel, format: options.logFormat });
  const idle = [
    ...idleGroupOptions(options, processes !== "none"),
    ...idleReplicaOptions(options),
    ...idleGroupsOptions(options),
    ...idleVariables,
  ];
  for (const line of idle) log.line("info", line);
  for (const warning of environmentWarnings(process.env, processes)) {
    log.line("warning", `Warning: ${warning}`);
  }
  const startTimes = new StartTimes();
  const report = startTimes.watch(lineReport(log, options.decodeLogInterval));
  const started = await context.startEngine(options, report);
  const engine = sleepsWhenIdle(started, { options, log, report, context });
  startTimes.end();
  await serveStarted(engine, { options, log, startTimes });
}

interface Started {
  readonly options: LaunchOptions;
  readonly log: Logger;
  readonly startTimes: StartTimes;
}

async function serveStarted(engine: StartedEngine, started: Started): Promise<void> {
  const { options, log } = started;
  let lifecycle: Lifecycle = "starting";
  const profiles = profileFiles(engine, options, log);
  const kernelTable = options.profileKernels ? await profileKernels(engine) : undefined;
  const webPage = await openWebPage(options, log);
  const role = await roleOf(engine, started);
  const surroundings = { ...started, profiles, webPage, role, lifecycle: () => lifecycle };
  const app = await appOver(engine, surroundings);
  const server = await serve(app, { ...options, limits: socketLimits(options) });
  const stopWatchdog = startWatchdog(engine, log, { timeout: options.watchdogTimeout });
  const stopped = drainOnSignal(server, engine, {
    drainTimeout: options.drainTimeout,
    log,
    onDrain: () => {
      lifecycle = "draining";
    },
  }).finally(stopWatchdog);
  log.line("info", `Listening on ${server.url}`);
  const access = describeAccess(options, options.host);
  if (access.isOpen) log.line("warning", `Warning: ${access.text}`);
  else log.line("info", access.text);
  const [servedModelName] = modelNamesOf(engine.model.path, options.servedModelName);
  const scriptLine = (text: string) => {
    if (options.logFormat === "sglang") log.line("info", text);
  };
  scriptLine(`Uvicorn running on ${server.url} (as scripts expect it; this is wisp)`);
  const run = async () => {
    if ((await warmUp(engine)) && lifecycle === "starting") {
      lifecycle = "ready";
      log.line("info", `Ready: ${servedModelName} answers at ${server.url}`);
      if (webPage !== undefined) log.line("info", `Chat: open ${webPageAddress(server.url)}`);
      scriptLine("The server is fired up and ready to roll!");
    }
    await stopped;
  };
  try {
    await untilLost(engine, server, run());
  } finally {
    await role?.close();
    await profiles?.settled();
    const table = await kernelTable?.().catch((error: Error) => error.message);
    if (table !== undefined) log.event("info", `Kernels: ${table}`);
  }
}

/** Milliseconds in which ranks that are lost end, all of them. */
const LOST_WAIT = 15_000;

/**
 * What `work` comes to, unless the engine is gone before. Then requests are told so before the process
 * ends.
 */
async function untilLost(
  { lost }: StartedEngine,
  server: RunningServer,
  work: Promise<void>,
): Promise<void> {
  if (lost === undefined) return work;
  try {
    await Promise.race([work, lost]);
  } catch (error) {
    if (!(error instanceof GroupError)) throw error;
    await server.close(LAST_WORDS);
    // It says why, and with which code the process ends; where others still run, the error itself does.
    await Promise.race([lost, sleep(LOST_WAIT)]);
    throw error;
  }
}

/** Loads what shares requests only where an option asks for it. */
async function roleOf(
  engine: StartedEngine,
  { options, log }: Started,
): Promise<OpenedRole | undefined> {
  if (options.disaggregationMode === "null") return undefined;
  const { openRole } = await import("../disaggregation/open_role.ts");
  const onEvent = (text: string) => log.event("info", text);
  const role = await openRole(engine, { options, env: process.env, onEvent });
  for (const line of role?.lines ?? []) log.line("info", line);
  return role;
}

function profileFiles(
  engine: GenerationEngine,
  { profileDir }: LaunchOptions,
  log: Logger,
): ProfileFiles | undefined {
  if (profileDir === undefined) return undefined;
  return new ProfileFiles(engine, {
    folder: profileDir,
    onProfile: (file, profile) => log.event("info", `Profile: ${file}\n${formatProfile(profile)}`),
    onError: (error) => log.error(error),
  });
}

function expertRecordFiles(
  engine: GenerationEngine,
  { expertRecorderMode, expertRecorderDir = tmpdir() }: LaunchOptions,
): ExpertRecordFiles | undefined {
  return expertRecorderMode && new ExpertRecordFiles(engine, expertRecorderDir);
}

interface AppSurroundings extends Started {
  readonly profiles: ProfileFiles | undefined;
  readonly webPage: WebPage | undefined;
  readonly role: OpenedRole | undefined;
  readonly lifecycle: () => Lifecycle;
}

/** The endpoints, with what the options put around the engine. */
async function appOver(
  engine: GenerationEngine,
  { options, log, startTimes, profiles, webPage, role, lifecycle }: AppSurroundings,
): Promise<Hono> {
  const { watchdogTimeout } = options;
  const modelNames = modelNamesOf(engine.model.path, options.servedModelName);
  const [modelName] = modelNames;
  const metrics = await openMetrics(engine, { ...options, modelName, role }, startTimes);
  const observers = [...requestLogs(options, log), ...(metrics ? [metrics.observer] : [])];
  const { streamInterval } = options;
  return withPreferred(options, (samplingParams) =>
    createApp(engine, {
      servedModelName: modelNames,
      toolCallParser: options.toolCallParser,
      reasoningParser: options.reasoningParser,
      cacheReport: options.enableCacheReport,
      ...accessOf(options, options.host),
      media: mediaOf(options),
      description: {
        ...describeOptions(LAUNCH_OPTIONS, options),
        model_path: engine.model.path,
        served_model_name: modelName,
        version: packageVersion(),
      },
      reportError: (error, requestId) => log.error(error, requestId),
      onIdleField: (name) =>
        log.event("info", `The server takes the field "${name}" and does nothing with it`),
      lifecycle,
      watchdogTimeout,
      healthCheckTimeout: options.healthCheckTimeout,
      metrics,
      profiles,
      expertRecords: expertRecordFiles(engine, options),
      webPage,
      role,
      observers,
      requestDefaults: {
        samplingParams,
        streamInterval: streamInterval === 1 ? undefined : streamInterval,
      },
    }),
  );
}

/** Loads what counts only where an option asks for figures. */
async function openMetrics(
  engine: GenerationEngine,
  {
    enableMetrics,
    modelName,
    collectTokensHistogram,
    role,
  }: LaunchOptions & { readonly modelName: string; readonly role: OpenedRole | undefined },
  startTimes: StartTimes,
): Promise<PrometheusMetrics | undefined> {
  if (!enableMetrics) return undefined;
  const { PrometheusMetrics } = await import("../observe/prometheus.ts");
  return new PrometheusMetrics(engine, {
    modelName,
    tokensHistogram: collectTokensHistogram,
    startTimes,
    role,
  });
}

/** At the level debug, a line for each request even when no option asks for it. */
function requestLogs(options: LaunchOptions, log: Logger): readonly EngineObserver[] {
  const level = options.logRequests ? "info" : "debug";
  if (!log.writes(level)) return [];
  const detail = (options.logRequestsLevel ?? 0) as RequestLogLevel;
  return [requestLog(log, { level, detail })];
}

/** What is wrong with the preferred parameters is wrong with the option. */
function withPreferred<T>(
  { preferredSamplingParams }: LaunchOptions,
  use: (params: LaunchOptions["preferredSamplingParams"]) => T,
): T {
  try {
    return use(preferredSamplingParams);
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    throw new OptionError(`Cannot use option --preferred-sampling-params: ${error.message}`, {
      cause: error,
    });
  }
}

/**
 * The first request of each replica compiles what is left to compile, and shows that the model works.
 *
 * @returns Whether all came to their ends, which a signal may prevent.
 */
async function warmUp(engine: GenerationEngine): Promise<boolean> {
  const { contextLength, dataParallelSize = 1 } = engine.model;
  // Token 0 is in every vocabulary, and one token fits into every context.
  const maxNewTokens = Math.min(WARM_UP_TOKENS, contextLength - 1);
  const sampling = { maxNewTokens, temperature: 0, ignoreEos: true };
  for (let dataParallelRank = 0; dataParallelRank < dataParallelSize; dataParallelRank++) {
    let finish: FinishReason | null = null;
    const request = { tokens: [0], sampling, dataParallelRank };
    try {
      for await (const chunk of engine.generate(request)) finish = chunk.finish;
    } catch (error) {
      // Of several replicas one may be lost meanwhile, and the others go on.
      const goesOn = dataParallelSize > 1 && engine.status().healthy;
      if (error instanceof GroupError && goesOn) continue;
      throw error;
    }
    if (finish === null || finish.type === "abort") return false;
  }
  return true;
}
