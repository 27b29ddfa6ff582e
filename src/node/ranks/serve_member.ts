/**
 * A node above 0 of a server's group: it has ranks and says whether they are there. Requests go to
 * node 0.
 *
 * @module
 */
import { StoppedError } from "../commands/stopped_error.ts";
import { deferred } from "../mpi/nodes.ts";
import type { GroupPlace } from "../mpi/rank_options.ts";
import type { Logger } from "../observe/logger.ts";
import { environmentWarnings } from "../options/environment.ts";
import type { LaunchOptions } from "../options/options.ts";
import type { MemberWork } from "../replicas/serve_replicas.ts";
import { serve } from "../serve/http.ts";
import { LAST_WORDS } from "../serve/shutdown.ts";
import { lineReport } from "../serve/start_report.ts";
import { launchRanks } from "./launch_ranks.ts";
import { engineOptionsOf } from "./rank_place.ts";
import { tellReport } from "./rank_talk.ts";
import { Restarts } from "./restarts.ts";

const HEALTH: readonly string[] = ["/health", "/health_generate"];
const SIGNALS = ["SIGTERM", "SIGINT"] as const;

interface Member {
  readonly place: GroupPlace;
  readonly log: Logger;
  /** Where it has whole replicas, of several machines': serves them. */
  readonly serveReplicas?: (options: LaunchOptions, given: MemberWork) => Promise<void>;
}

/**
 * Runs until the group has ended.
 *
 * @throws {LaunchError} with the exit code that says why it has ended or did not start.
 */
export async function serveMember(
  options: LaunchOptions,
  { place, log, serveReplicas }: Member,
): Promise<void> {
  for (const warning of environmentWarnings(process.env, "ours")) {
    log.line("warning", `Warning: ${warning}`);
  }
  let isReady = false;
  const restarts = new Restarts(options.restart, log);
  const stopping = deferred<void>();
  const hasReplicas = serveReplicas !== undefined;
  let isStopping = false;
  const onSignal = () => {
    isStopping = true;
    restarts.end();
    // Requests had better go to other nodes, as node 0 is told.
    if (hasReplicas) isReady = false;
    stopping.resolve();
  };
  const ending = endOnSignal(options, { log, hasReplicas, onSignal });
  const health = await serve({ fetch: (request) => healthAnswer(request, isReady) }, options);
  log.line("info", `Health of node ${place.node} at ${health.url}; requests go to node 0`);
  const ready = (what: string) => {
    isReady = !isStopping;
    restarts.runs();
    log.line("info", `Ready: the ${what} of node ${place.node} are loaded`);
  };
  const { signal, onMet } = ending;
  const run = () =>
    serveReplicas === undefined
      ? runRanks(options, { place, log, signal, onMet, onLoaded: () => ready("ranks") })
      : serveReplicas(options, {
          place,
          log,
          signal,
          onMet,
          stopping: stopping.promise,
          onLoaded: () => ready("replicas"),
        });
  try {
    for (let isOver = false; !isOver; ) {
      try {
        await run();
        isOver = true;
      } catch (error) {
        isReady = false;
        ending.isAlone();
        await restarts.next(error, ending.signal);
      }
    }
  } catch (error) {
    throw ending.signal.aborted ? ending.signal.reason : error;
  } finally {
    ending.forget();
    await health.close(LAST_WORDS);
  }
}

/** Until the group has ended. */
function runRanks(
  options: LaunchOptions,
  { place, log, signal, onMet, onLoaded }: Omit<MemberWork, "stopping">,
): Promise<void> {
  let missing = place.ranksPerNode;
  return launchRanks({
    place,
    options: engineOptionsOf(options),
    facts: { "--restart": options.restart },
    reportsSteps: false,
    onBound: (sentence) => log.line("info", sentence),
    signal,
    onMet,
    onMessage: (message, rank) => {
      if (message.type === "report") tellReport(lineReport(log.ofRank(rank)), message);
      if (message.type !== "loaded") return;
      missing -= 1;
      if (missing === 0) onLoaded();
    },
  });
}

/** As node 0 answers probes, without anything about the model. */
function healthAnswer(request: Request, isReady: boolean): Response {
  const { pathname } = new URL(request.url);
  const isProbe = request.method === "GET" || request.method === "HEAD";
  if (!isProbe || !HEALTH.includes(pathname)) return new Response(null, { status: 404 });
  return new Response(null, { status: isReady ? 200 : 503 });
}

interface SignalSetting {
  readonly log: Logger;
  /** Whether requests are answered by ranks of this node alone. */
  readonly hasReplicas: boolean;
  readonly onSignal: () => void;
}

/**
 * Node 0 needs these ranks for the requests that still run: it ends the group when it is told to
 * stop, and this node waits for that for as long as requests may run. Where it has replicas it waits for
 * their requests. Before the nodes have met there are none, and this one ends at once.
 */
function endOnSignal(
  { drainTimeout }: LaunchOptions,
  { log, hasReplicas, onSignal: tell }: SignalSetting,
) {
  const ending = new AbortController();
  let hasMet = false;
  let isStopping = false;
  let timer: NodeJS.Timeout | undefined;
  const onSignal = (name: NodeJS.Signals, number: number) => {
    if (isStopping) process.exit(128 + number);
    isStopping = true;
    tell();
    if (!hasMet) {
      const alone = `Cannot wait for the group: ${name} came before the nodes have met`;
      return ending.abort(new StoppedError(alone, 128 + number));
    }
    const what = hasReplicas
      ? `new requests go to other nodes, and those that run have ${drainTimeout} seconds`
      : `node 0 has ${drainTimeout} seconds to end the group`;
    log.event("info", `Stopping: ${what}; a second signal stops at once`);
    const problem = hasReplicas ? "requests are not answered" : "node 0 has not ended the group";
    const late = `Cannot wait any longer: ${problem} after ${drainTimeout} seconds`;
    timer = setTimeout(() => ending.abort(new Error(late)), 1000 * drainTimeout);
  };
  for (const name of SIGNALS) process.on(name, onSignal);
  return {
    signal: ending.signal,
    onMet: () => {
      hasMet = true;
    },
    /** The group has ended, and may be started again. */
    isAlone: () => {
      hasMet = false;
    },
    forget: () => {
      clearTimeout(timer);
      for (const name of SIGNALS) process.off(name, onSignal);
    },
  };
}
