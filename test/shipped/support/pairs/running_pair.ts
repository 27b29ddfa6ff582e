/**
 * A router, a prefill and a decode server as installed programs, each of which may end and begin again:
 * they reach each other over lines that may be cut, and what the two servers say to each other is seen.
 *
 * @module
 */
import { expect } from "vitest";
import { freePort } from "../../../support/mpi/processes.ts";
import { until } from "../../../support/until.ts";
import { type ServeOptions, type ServingWisp, serveWisp } from "../wisp.ts";
import { CutLine } from "./cut_line.ts";
import { WatchedPages } from "./watched_pages.ts";

export const ROLES = ["router", "prefill", "decode"] as const;
export type Role = (typeof ROLES)[number];

/** Seconds of a check, and how many fail before a worker counts as lost. */
const HEALTH = { timeout: 2, threshold: 3 };
const SHARED = [
  ...["--page-size", "4", "--chunked-prefill-size", "32", "--context-length", "2048"],
  ...["--max-total-tokens", "8192", "--random-seed", "7", "--drain-timeout", "5"],
  ...["--disaggregation-heartbeat-interval", "1", "--disaggregation-bootstrap-timeout", "10"],
  ...["--disaggregation-waiting-timeout", "30", "--disaggregation-transfer-backend", "websocket"],
];

export interface PairOptions {
  /** Of the model, of both servers. */
  readonly model: readonly string[];
  /** Of both. Default: none. */
  readonly more?: readonly string[];
  readonly serve?: ServeOptions;
}

export class RunningPair {
  readonly #options: PairOptions;
  readonly #servers = new Map<Role, ServingWisp>();
  readonly lines: Readonly<Record<"prefill" | "decode" | "pages", CutLine>>;
  readonly pages: WatchedPages;

  private constructor(options: PairOptions, lines: RunningPair["lines"], pages: WatchedPages) {
    this.#options = options;
    this.lines = lines;
    this.pages = pages;
    lines.pages.target = pages.port;
  }

  static async start(options: PairOptions): Promise<RunningPair> {
    const [prefill, decode, pages] = await Promise.all([1, 2, 3].map(() => CutLine.open()));
    const lines = { prefill: prefill!, decode: decode!, pages: pages! };
    const pair = new RunningPair(options, lines, await WatchedPages.open());
    await Promise.all([pair.begin("prefill"), pair.begin("decode")]);
    await pair.begin("router");
    return pair;
  }

  of(role: Role): ServingWisp {
    return this.#servers.get(role)!;
  }

  /** Starts a server, the first time or once it has ended. */
  async begin(role: Role): Promise<void> {
    const { lines, pages } = this;
    const { serve } = this.#options;
    if (role === "router") {
      const router = await serveWisp(this.#routerOptions(), { command: ["launch_router"] });
      this.#servers.set("router", router);
      // Its own request for the pair is over then.
      await until(async () => expect((await router.get("/readiness")).status).toBe(200));
      return;
    }
    const own = [...this.#options.model, ...(this.#options.more ?? []), ...SHARED];
    // The port may be given, as ranks say it in their own time.
    const port = role === "prefill" ? await freePort() : lines.pages.port;
    if (role === "prefill") pages.target = port;
    const server = await serveWisp(
      [
        ...[...own, "--disaggregation-mode", role, "--disaggregation-bootstrap-port", `${port}`],
        ...["--disaggregation-prefill-hosts", `127.0.0.1:${lines.pages.port}`],
      ],
      serve,
    );
    lines[role].target = Number(new URL(server.url).port);
    this.#servers.set(role, server);
  }

  /** Starts a server that has ended, or is about to. */
  async beginAgain(role: Role): Promise<void> {
    await until(() => expect([role, hasEnded(this.of(role))]).toEqual([role, true]));
    await this.begin(role);
  }

  /** Waits until a server serves that was frozen; one that has ended of it begins again. */
  async serveAgain(role: Role): Promise<void> {
    const server = this.of(role);
    const isHealthy = await until(async () => {
      if (hasEnded(server)) return false;
      const path = role === "router" ? "/liveness" : "/health";
      expect((await server.get(path)).status).toBe(200);
      return true;
    });
    if (!isHealthy) await this.begin(role);
  }

  #routerOptions(): readonly string[] {
    const { prefill, decode, pages } = this.lines;
    return [
      ...["--pd-disaggregation", "--prefill", prefill.url, `${pages.port}`, "--decode", decode.url],
      ...["--policy", "random", "--prometheus-port", "0", "--worker-startup-check-interval", "0.2"],
      ...["--health-check-interval-secs", "0.5", "--health-success-threshold", "1"],
      ...["--health-check-timeout-secs", `${HEALTH.timeout}`],
      ...["--health-failure-threshold", `${HEALTH.threshold}`, "--disable-circuit-breaker"],
    ];
  }

  /** Rooms, leases, messages, tokens and requests that a server has still; all zero where it rests. */
  async heldBy(role: Role): Promise<readonly number[]> {
    const server = this.of(role);
    if (role === "router") {
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
  async rest(roles: readonly Role[]): Promise<number> {
    const begun = performance.now();
    for (const role of roles) {
      await until(async () => {
        const held = await this.heldBy(role);
        expect([role, held.some((count) => count !== 0), held]).toEqual([role, false, held]);
      });
    }
    return (performance.now() - begun) / 1000;
  }

  async close(): Promise<void> {
    const { prefill, decode, pages } = this.lines;
    await Promise.all([prefill, decode, pages, this.pages].map((one) => one.close()));
  }
}

const hasEnded = ({ process: { exitCode, signalCode } }: ServingWisp): boolean =>
  exitCode !== null || signalCode !== null;
