/**
 * A router and prefill and decode servers as installed programs, each of which may end and begin again:
 * they reach each other over lines that may be cut, and what servers say to each other is seen.
 *
 * @module
 */
import { expect } from "vitest";
import { freePort } from "../../../support/mpi/processes.ts";
import { until } from "../../../support/until.ts";
import { type ServingWisp, serveWisp, type WispOptions } from "../wisp.ts";
import { CutLine } from "./cut_line.ts";
import { WatchedPages } from "./watched_pages.ts";

export type Kind = "router" | "prefill" | "decode";
export type ServerName = "prefill" | "decode" | "prefill 2" | "decode 2";
export type Name = "router" | ServerName;

export const kindOf = (name: string): Kind => name.split(" ")[0] as Kind;

/** Milliseconds between two looks at a program. */
export const LOOK = 20;
/** Seconds of a check, and how many fail before a worker counts as lost. */
const HEALTH = { timeout: 2, threshold: 3 };
const SHARED = [
  ...["--page-size", "4", "--chunked-prefill-size", "32", "--context-length", "2048"],
  ...["--max-total-tokens", "8192", "--random-seed", "7", "--drain-timeout", "5"],
  ...["--disaggregation-heartbeat-interval", "1", "--disaggregation-bootstrap-timeout", "10"],
  ...["--disaggregation-waiting-timeout", "30", "--disaggregation-transfer-backend", "websocket"],
];

export interface PairOptions {
  /** Of the model, of all servers. */
  readonly model: readonly string[];
  /** Further options of all servers. Default: none. */
  readonly more?: readonly string[];
  /** How they are started. */
  readonly serve?: WispOptions;
  /** Default: one of either kind. */
  readonly names?: readonly ServerName[];
}

/** How a prefill server is met. */
interface Meeting {
  readonly line: CutLine;
  readonly pages: WatchedPages;
}

export class RunningPair {
  readonly names: readonly Name[];
  readonly #options: PairOptions;
  readonly #servers = new Map<Name, ServingWisp>();
  readonly #lines = new Map<ServerName, CutLine>();
  readonly #meetings = new Map<ServerName, Meeting>();

  private constructor(options: PairOptions) {
    this.#options = options;
    this.names = ["router", ...(options.names ?? (["prefill", "decode"] as const))];
  }

  static async start(options: PairOptions): Promise<RunningPair> {
    const pair = new RunningPair(options);
    const servers = pair.names.filter((name) => name !== "router");
    for (const name of servers) {
      pair.#lines.set(name, await CutLine.open());
      if (kindOf(name) !== "prefill") continue;
      const [line, pages] = [await CutLine.open(), await WatchedPages.open()];
      line.target = pages.port;
      pair.#meetings.set(name, { line, pages });
    }
    await Promise.all(servers.map((name) => pair.begin(name)));
    await pair.begin("router");
    return pair;
  }

  of(name: Name): ServingWisp {
    return this.#servers.get(name)!;
  }

  /** What a prefill server and others say to each other. */
  pagesOf(name: ServerName): WatchedPages {
    return this.#meetings.get(name)!.pages;
  }

  get pages(): readonly WatchedPages[] {
    return [...this.#meetings.values()].map(({ pages }) => pages);
  }

  /** All that a program is reached by; of the router all by which it reaches others. */
  linesOf(name: Name): readonly CutLine[] {
    if (name === "router") return [...this.#lines.values()];
    const meeting = this.#meetings.get(name)?.line;
    // A decode server goes to the meetings of others, where it is the only one.
    const goesTo = this.names.length === 3 ? [...this.#meetings.values()] : [];
    const met = meeting === undefined ? goesTo.map(({ line }) => line) : [meeting];
    return [this.#lines.get(name)!, ...met];
  }

  /** Starts a program, the first time or once it has ended. */
  async begin(name: Name): Promise<void> {
    if (name === "router") {
      const router = await serveWisp(this.#routerOptions(), { command: ["launch_router"] });
      this.#servers.set("router", router);
      // Its own request for the pair is over then.
      const isReady = async () => expect((await router.get("/readiness")).status).toBe(200);
      await until(isReady, LOOK);
      return;
    }
    const meetings = [...this.#meetings.values()];
    const meeting = this.#meetings.get(name);
    // The port is given, as ranks say it in their own time.
    const port = meeting === undefined ? 1 : await freePort();
    if (meeting !== undefined) meeting.pages.target = port;
    const { model, more = [], serve } = this.#options;
    const options = [
      ...[...model, ...SHARED, ...more, "--disaggregation-mode", kindOf(name)],
      ...["--disaggregation-bootstrap-port", `${port}`, "--disaggregation-prefill-hosts"],
      ...meetings.map(({ line }) => `127.0.0.1:${line.port}`),
    ];
    const server = await serveWisp(options, serve);
    this.#lines.get(name)!.target = Number(new URL(server.url).port);
    this.#servers.set(name, server);
  }

  /** Starts a program that has ended, or is about to. */
  async beginAgain(name: Name): Promise<void> {
    await until(() => expect([name, hasEnded(this.of(name))]).toEqual([name, true]), LOOK);
    await this.begin(name);
  }

  /** Waits until a program serves that was frozen; one that has ended of it begins again. */
  async serveAgain(name: Name): Promise<void> {
    const server = this.of(name);
    const path = name === "router" ? "/liveness" : "/health";
    const isThere = await until(async () => {
      if (hasEnded(server)) return false;
      expect((await server.get(path)).status).toBe(200);
      return true;
    }, LOOK);
    if (!isThere) await this.begin(name);
  }

  #routerOptions(): readonly string[] {
    const workers = [...this.#lines].flatMap(([name, { url }]) => {
      const port = this.#meetings.get(name)?.line.port;
      return port === undefined ? ["--decode", url] : ["--prefill", url, `${port}`];
    });
    return [
      ...["--pd-disaggregation", ...workers, "--policy", "random", "--prometheus-port", "0"],
      ...["--health-check-interval-secs", "0.5", "--health-success-threshold", "1"],
      ...["--health-check-timeout-secs", `${HEALTH.timeout}`, "--disable-circuit-breaker"],
      ...["--health-failure-threshold", `${HEALTH.threshold}`],
      ...["--worker-startup-check-interval", "0.2"],
    ];
  }

  /** Rooms, leases, messages, tokens and requests that a program has still; all zero where it rests. */
  async heldBy(name: Name): Promise<readonly number[]> {
    const server = this.of(name);
    if (name === "router") {
      const metrics = /Metrics at (\S+)/.exec(server.output())![1]!;
      const text = await (await fetch(metrics)).text();
      const counts = text.matchAll(/^wisp_router_running_requests\{[^}]*\} (\d+)$/gm);
      return [...counts].map(([, count]) => Number(count));
    }
    const info = (await (await server.get("/get_server_info")).json()) as {
      readonly disaggregation: Readonly<Record<string, number>>;
      readonly internal_states: readonly [{ readonly num_used_tokens: number }];
    };
    const load = (await (await server.get("/get_load")).json()) as Readonly<Record<string, number>>;
    const { rooms = -1, awaited = 0, frames = 0, transferring = -1 } = info.disaggregation;
    const { num_waiting_rooms = -1, num_transferring_rooms = -1, num_reqs = -1 } = load;
    const used = info.internal_states[0].num_used_tokens;
    const loads = [num_waiting_rooms, num_transferring_rooms, num_reqs];
    return [rooms, awaited, frames, transferring, used, ...loads];
  }

  /** Waits until nothing of any request is left on these. @returns Seconds. */
  async rest(names: readonly Name[]): Promise<number> {
    const begun = performance.now();
    const isAtRest = async (name: Name) => {
      const held = await this.heldBy(name);
      expect([name, held.some((count) => count !== 0), held]).toEqual([name, false, held]);
    };
    await Promise.all(names.map((name) => until(() => isAtRest(name), LOOK)));
    return (performance.now() - begun) / 1000;
  }

  /** Processes of its programs, but of their ranks. */
  get pids(): readonly number[] {
    return [...this.#servers.values()].map(({ process: { pid } }) => pid!);
  }

  /** Ends all programs. */
  async close(): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server.stop("SIGKILL")));
    const meetings = [...this.#meetings.values()].flatMap(({ line, pages }) => [line, pages]);
    await Promise.all([...this.#lines.values(), ...meetings].map((one) => one.close()));
  }
}

const hasEnded = ({ process: { exitCode, signalCode } }: ServingWisp): boolean =>
  exitCode !== null || signalCode !== null;
