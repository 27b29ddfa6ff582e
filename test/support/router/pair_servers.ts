/**
 * A prefill and a decode server over engines, and a router in front of them, all on sockets.
 *
 * @module
 */
import { expect } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { DISAGGREGATION_OPTIONS } from "../../../src/node/disaggregation/disaggregation_options.ts";
import { type OpenedRole, openRole } from "../../../src/node/disaggregation/open_role.ts";
import { PrometheusMetrics } from "../../../src/node/observe/prometheus.ts";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import { roundRobinPolicy } from "../../../src/router/policy/policy.ts";
import { until } from "../until.ts";
import { type RunningRouter, routerTo } from "./running_router.ts";
import { closeAfterwards, serverOver } from "./worker_servers.ts";

export interface RoleServer {
  readonly url: string;
  readonly role: OpenedRole;
  /** Where a prefill server meets decode servers. */
  readonly bootstrapPort: number;
  readonly events: readonly string[];
}

/** A server of a role, by options of the command line beside `--disaggregation-mode`. */
export async function roleServer(
  engine: Engine,
  mode: "prefill" | "decode",
  args: readonly string[],
): Promise<RoleServer> {
  const events: string[] = [];
  const { values } = parseOptions(DISAGGREGATION_OPTIONS, ["--disaggregation-mode", mode, ...args]);
  const role = (await openRole(engine, {
    options: { ...values, host: "127.0.0.1" },
    env: {},
    onEvent: (text) => events.push(text),
  }))!;
  closeAfterwards(() => role.close());
  const metrics = new PrometheusMetrics(engine, { modelName: "m", role });
  const { url } = await serverOver(engine, { role, metrics });
  const bootstrapPort = Number(/:(\d+)$/.exec(role.lines.at(-1)!)?.[1]);
  return { url, role, bootstrapPort, events };
}

export interface Pair {
  readonly prefill: RoleServer;
  readonly decode: RoleServer;
  readonly router: RunningRouter;
}

export async function pairOf(prefill: Engine, decode: Engine): Promise<Pair> {
  const first = await roleServer(prefill, "prefill", ["--disaggregation-bootstrap-port", "0"]);
  const hosts = ["--disaggregation-prefill-hosts", `127.0.0.1:${first.bootstrapPort}`];
  const second = await roleServer(decode, "decode", hosts);
  const policies = { prefill: roundRobinPolicy(), decode: roundRobinPolicy() };
  const router = await routerTo([], { pairPolicies: policies });
  const { bootstrapPort } = first;
  const { workers, checks } = router;
  await checks.admit(workers.add(first.url, { role: "prefill", bootstrapPort }));
  await checks.admit(workers.add(second.url, { role: "decode" }));
  await until(async () => expect((await fetch(`${router.url}/readiness`)).status).toBe(200));
  return { prefill: first, decode: second, router };
}
