/**
 * Ranks of a server as threads of its process: where they are of use, and how they start.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import type { Environment } from "../hub/hub_settings.ts";
import { OptionError } from "../options/option_parser.ts";
import type { LaunchOptions } from "../options/options.ts";
import type { LaunchRanksOptions } from "../ranks/launch_ranks.ts";
import { factsOf } from "../ranks/rank_place.ts";
import type { FromRank, ToRank } from "../ranks/rank_talk.ts";
import { launchThreads } from "./launch_threads.ts";

const RANK_THREADS = "WISP_RANK_THREADS";

const VALUES: Readonly<Record<string, boolean>> = { 0: false, false: false, 1: true, true: true };

/** Where the built program of a rank lies, seen from the package's entries and from the files they share. */
const PLACES = ["./rank_thread.js", "../rank_thread.js"];

type ThreadedOptions = Pick<
  LaunchOptions,
  "tpSize" | "dpSize" | "enableDpAttention" | "disaggregationMode" | "sleepIdleSeconds"
>;

/**
 * Whether ranks of this process are threads: where each has a processor core, unless the variable says.
 * Those that share requests with other servers, or sleep, are on one thread.
 *
 * @param cores Of this machine that the process may use.
 * @throws {OptionError} when the variable is anything but 0, 1, false or true.
 */
export function areThreads(
  options: ThreadedOptions,
  env: Environment,
  cores = availableParallelism(),
): boolean {
  const { tpSize, dpSize, enableDpAttention, disaggregationMode, sleepIdleSeconds } = options;
  const asked = askedThreads(env);
  if (tpSize === 1 || asked === false) return false;
  if (disaggregationMode !== "null" || sleepIdleSeconds !== undefined) return false;
  const ranks = enableDpAttention ? tpSize : tpSize * dpSize;
  return asked === true || cores >= ranks;
}

function askedThreads(env: Environment): boolean | undefined {
  const text = env[RANK_THREADS]?.trim();
  if (!text) return undefined;
  const value = text.toLowerCase();
  if (Object.hasOwn(VALUES, value)) return VALUES[value]!;
  throw new OptionError(`Cannot use ${RANK_THREADS} ${text}: it must be true or false`);
}

/** Undefined where the package runs from its TypeScript source, which no thread can run. */
export function threadProgram(): URL | undefined {
  const urls = PLACES.map((place) => new URL(place, import.meta.url));
  return urls.find((url) => existsSync(fileURLToPath(url)));
}

/**
 * Resolves once the ranks have done their work.
 *
 * @throws {LaunchError} with the exit code that says why the group has ended or did not start.
 */
export function launchRankThreads(program: URL, given: LaunchRanksOptions): Promise<void> {
  const { place, part, options, reportsSteps, onStart, onMessage, signal } = given;
  const { ranksPerNode: size, timeout } = place;
  const facts = { ...factsOf(options), ...given.facts };
  const { replica = 0, replicas = 1 } = part ?? {};
  return launchThreads({
    program,
    size,
    timeout,
    signal,
    onStart: (say) => {
      for (let rank = 0; rank < size; rank++) {
        const local = { rank, ranks: size, replica, replicas };
        say({ type: "load", options, facts, local, reportsSteps } satisfies ToRank, rank);
      }
      onStart?.(say);
    },
    onMessage: (message, rank) => onMessage(message as FromRank, rank),
  });
}
