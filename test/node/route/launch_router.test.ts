import { afterEach, describe, expect, test } from "vitest";
import { RESERVED_ROUTER_OPTIONS } from "../../../src/node/route/reserved_router_options.ts";
import { ROUTER_OPTIONS } from "../../../src/node/route/router_options.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { type CommandRun, sendSignal, startCommand } from "../../support/package/run_command.ts";
import { fakeCluster } from "../../support/router/fake_cluster.ts";
import { postTo } from "../../support/router/running_router.ts";
import {
  closeAll,
  failingServer,
  freeUrl,
  serverOver,
} from "../../support/router/worker_servers.ts";
import { until } from "../../support/until.ts";

const open: CommandRun[] = [];

afterEach(async () => {
  for (const router of open.splice(0).reverse()) {
    sendSignal("SIGTERM");
    await router.code;
  }
  await closeAll();
});

const PORTS = ["--port", "0", "--prometheus-port", "0"];
const SOON = ["--worker-startup-check-interval", "0.01"];

/** A router that is ready, and is stopped after the test. */
async function routed(args: readonly string[]): Promise<CommandRun> {
  const router = startCommand(["launch_router", ...PORTS, ...SOON, ...args]);
  await router.isReady;
  open.push(router);
  return router;
}

async function failed(args: readonly string[]) {
  const router = startCommand(["launch_router", ...PORTS, ...args]);
  return { code: await router.code, stderr: router.stderr() };
}

const metricsUrl = ({ stderr }: CommandRun) => /Metrics at (\S+)/.exec(stderr())![1]!;

describe("wisp launch_router", () => {
  test("routes to its workers, counts, and ends at SIGTERM with its last answer", async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const engine = new ScriptedEngine({
      script: ({ prompt }) => (prompt === "slow" ? { pieces: ["a"], gate: () => gate } : {}),
    });
    const workers = [await serverOver(engine), await serverOver()];
    const urls = workers.map(({ url }) => url);
    const router = await routed(["--policy", "round_robin", "--worker-urls", ...urls]);
    expect(router.stderr()).toContain(`Ready: round_robin routes to 2 workers at ${router.url()}`);
    const slow = postTo(router.url(), "/generate", { text: "slow" });
    await until(() => expect(engine.running).toHaveLength(1));
    await (await postTo(router.url(), "/generate", { text: "x" })).text();
    const page = await (await fetch(metricsUrl(router))).text();
    const lines = page.split("\n");
    for (const line of [
      'wisp_router_requests_total{route="/generate"} 1',
      'wisp_router_request_duration_seconds_count{route="/generate"} 1',
      "wisp_router_generate_duration_seconds_count 1",
      "wisp_router_active_workers 2",
      "wisp_router_admitted_requests 1",
      `wisp_router_worker_health{worker="${urls[1]}"} 1`,
      `wisp_router_running_requests{worker="${urls[0]}"} 1`,
      `wisp_router_processed_requests_total{worker="${urls[1]}"} 1`,
      `wisp_router_cb_state{worker="${urls[0]}"} 0`,
      `wisp_router_cb_outcomes_total{worker="${urls[1]}",outcome="success"} 1`,
      `wisp_router_policy_decisions_total{policy="round_robin",worker="${urls[0]}"} 1`,
    ]) {
      expect(lines).toContain(line);
    }
    open.pop();
    sendSignal("SIGTERM");
    expect((await fetch(`${router.url()}/readiness`)).status).toBe(503);
    expect((await fetch(`${router.url()}/liveness`)).status).toBe(200);
    expect((await postTo(router.url(), "/generate", { text: "late" })).status).toBe(503);
    release();
    expect((await (await slow).json()) as object).toMatchObject({ text: "a" });
    expect(await router.code).toBe(0);
    await expect(fetch(metricsUrl(router))).rejects.toThrow();
  });

  test("counts retries, breakers and beginnings of prompts, and forgets a worker that is removed", async () => {
    const bad = await failingServer((response) => response.writeHead(500).end());
    const { url } = await serverOver();
    const args = ["--cb-failure-threshold", "1", "--retry-initial-backoff-ms", "1"];
    const router = await routed([...args, "--worker-urls", bad.url, url]);
    for (let i = 0; i < 2; i++) await postTo(router.url(), "/generate", { text: "same prompt" });
    const read = async () => (await (await fetch(metricsUrl(router))).text()).split("\n");
    const ofBad = `wisp_router_cb_outcomes_total{worker="${bad.url}",outcome="failure"} 1`;
    const lines = await read();
    for (const line of [
      'wisp_router_retries_total{route="/generate"} 1',
      'wisp_router_retry_backoff_duration_seconds_count{attempt="1"} 1',
      `wisp_router_cb_state_transitions_total{worker="${bad.url}",from="closed",to="open"} 1`,
      `wisp_router_cb_state{worker="${bad.url}"} 1`,
      "wisp_router_cache_hits_total 1",
      ofBad,
    ]) {
      expect(lines).toContain(line);
    }
    expect(lines).toContain(`wisp_router_tree_size{worker="${url}"} ${128 + 11}`);
    await fetch(`${router.url()}/remove_worker?url=${bad.url}`, { method: "POST" });
    expect((await read()).some((line) => line.includes(bad.url))).toBe(false);
    expect(router.stderr()).toMatch(
      /Request gnt-\w+ of \/generate attempt 1 at \S+ failed: it answered 500/,
    );
  });

  test("writes its log as JSON, a line for each request at debug", async () => {
    const { url } = await serverOver();
    const args = ["--log-format", "json", "--log-level", "debug", "--worker-urls", url];
    const router = await routed(args);
    const headers = { "x-request-id": "mine" };
    await (await postTo(router.url(), "/v1/completions", { prompt: "x" }, { headers })).text();
    const line = await until(() => {
      const lines = router.lines().map((text) => JSON.parse(text) as Record<string, unknown>);
      const found = lines.find(({ x_request_id }) => x_request_id === "mine");
      expect(found).toBeDefined();
      return found!;
    });
    expect(line).toMatchObject({
      level: "debug",
      route: "/v1/completions",
      worker: url,
      status: 200,
      attempts: 1,
      seconds: expect.any(Number) as number,
      error: null,
    });
  });

  test("listens before its workers are there, and gives up those that do not come", async () => {
    const url = await freeUrl();
    const args = [...SOON, "--worker-startup-timeout-secs", "0.3", "--worker-urls", url];
    const router = startCommand(["launch_router", ...PORTS, ...args]);
    await until(() => expect(router.stderr()).toContain("Listening on"));
    expect((await fetch(`${router.url()}/liveness`)).status).toBe(200);
    expect((await fetch(`${router.url()}/readiness`)).status).toBe(503);
    expect(await router.code).toBe(1);
    expect(router.stderr()).toContain(
      `Cannot route requests: Timeout 0.3s waiting for workers ["${url}"] to become healthy`,
    );
    process.removeListener("SIGTERM", process.listeners("SIGTERM").at(-1) as () => void);
    process.removeListener("SIGINT", process.listeners("SIGINT").at(-1) as () => void);
  });

  test("starts without workers, which are added later", async () => {
    const { url } = await serverOver();
    const router = await routed(["--eviction-interval-secs", "120"]);
    expect(router.stderr()).toContain("Option --eviction-interval-secs changes nothing");
    const added = await fetch(`${router.url()}/add_worker?url=${url}`, { method: "POST" });
    expect(await added.text()).toBe(`Successfully added worker: ${url}`);
    expect((await postTo(router.url(), "/generate", { text: "x" })).status).toBe(200);
  });
});

describe("the pods of a cluster", () => {
  test("are its workers, alone or beside others", async () => {
    const [worker, other, cluster] = [await serverOver(), await serverOver(), await fakeCluster()];
    const port = new URL(worker.url).port;
    cluster.put("a", { labels: { app: "wisp", tier: "fast" } });
    cluster.put("b", { labels: { app: "wisp" }, ip: "127.0.0.9" });
    const found = ["--service-discovery", "--service-discovery-api", `${cluster.url}/`];
    const where = ["--service-discovery-port", port, "--service-discovery-namespace", "here"];
    const labels = ["--selector", "app=wisp", "tier=fast", "--worker-urls", other.url];
    const router = await routed([...found, ...where, ...labels]);
    const list = async () => (await fetch(`${router.url()}/list_workers`)).json();
    const urls = [other.url, worker.url].sort();
    await until(async () => {
      const listed = (await list()) as { readonly urls: readonly string[] };
      expect([...listed.urls].sort()).toEqual(urls);
      expect(router.stderr()).toContain(`Worker ${worker.url} is healthy`);
    });
    expect(router.stderr()).toContain(`Pod default/a is the worker ${worker.url}`);
    await until(() => expect(cluster.watches).toBe(1));
    expect(cluster.asked[0]!.path).toBe("/api/v1/namespaces/here/pods");
    cluster.put("a", { labels: { app: "wisp", tier: "fast" }, isReady: false });
    await until(async () => expect(await list()).toEqual({ urls: [other.url], draining: [] }));
    const figures = (await (await fetch(metricsUrl(router))).text()).split("\n");
    expect(figures).toContain("wisp_router_discovery_updates_total 2");
    expect(figures).toContain("wisp_router_discovery_workers_added 1");
    expect(figures).toContain("wisp_router_discovery_workers_removed 1");
    open.pop();
    sendSignal("SIGTERM");
    expect(await router.code).toBe(0);
    await until(() => expect(cluster.watches).toBe(0));
  });

  test("may have roles, one of which the command line names", async () => {
    const [prefill, decode, cluster] = [
      await failingServer((response) => response.end()),
      await failingServer((response) => response.end()),
      await fakeCluster(),
    ];
    const annotations = { "sglang.ai/bootstrap-port": "7" };
    cluster.put("p", { labels: { part: "prefill" }, annotations });
    const port = new URL(prefill.url).port;
    const found = ["--service-discovery", "--service-discovery-api", cluster.url];
    const where = ["--service-discovery-port", port, "--prefill-selector", "part=prefill"];
    const pair = ["--pd-disaggregation", "--decode", decode.url, "--policy", "power_of_two"];
    const two = ["--decode-policy", "random"];
    const router = await routed([...found, ...where, ...pair, ...two]);
    await until(() => expect(router.stderr()).toContain("answer together"));
    const loads = await (await fetch(`${router.url()}/get_loads`)).json();
    expect(loads).toMatchObject({ errors: [] });
    expect(JSON.stringify(loads)).toContain(`prefill_${prefill.url}`);
  });
});

const DISCOVERY = ["--service-discovery", "--service-discovery-api", "http://127.0.0.1:1"];

const PAIR = ["--pd-disaggregation", "--decode", "http://b:1"];

describe("an option", () => {
  test.each(Object.values(RESERVED_ROUTER_OPTIONS))(
    "that does not exist yet is refused: $flags",
    async ({ flags, kind }) => {
      const { code, stderr } = await failed([flags[0], ...(kind === "flag" ? [] : ["1"])]);
      expect(code).toBe(2);
      expect(stderr).toContain(`Cannot use option ${flags[0]}`);
      expect(stderr).toContain("it is not supported yet");
    },
  );

  test.each([
    [["--worker-urls", "grpc://a:1"], "--worker-urls grpc://a:1: it must be the http or https"],
    [["--worker-urls", "http://a:1", "http://a:1/"], "http://a:1: it is given twice"],
    [["--policy", "fastest"], "--policy fastest: it must be cache_aware, power_of_two, random or"],
    [["--cache-threshold", "1.5"], "--cache-threshold 1.5: it must be a number from 0 to 1"],
    [["--balance-rel-threshold", "0.5"], "--balance-rel-threshold 0.5: it must be a number, 1 or"],
    [["--retry-max-backoff-ms", "10"], "must be at least --retry-initial-backoff-ms, 50"],
    [["--health-check-endpoint", "health"], "--health-check-endpoint health: it must begin with /"],
    [["--request-id-headers", "a b"], "--request-id-headers a b: it is no header's name"],
    [
      ["--policy", "power_of_two", "--worker-urls", "http://a:1"],
      "Power-of-two policy requires at least 2 workers",
    ],
    [["--prefill", "http://a:1"], "Cannot use option --prefill: it needs --pd-disaggregation"],
    [["--pd-disaggregation"], "PD mode requires at least one prefill worker URL"],
    [["--pd-disaggregation", "--prefill", "http://a:1"], "at least one decode worker URL"],
    [
      [...PAIR, "--prefill", "http://a:1", "x"],
      "Invalid bootstrap port: x. Must be a number or 'none'",
    ],
    [[...PAIR, "--prefill", "http://a:1", "1", "2"], "Invalid bootstrap port: 2."],
    [[...PAIR, "--prefill", "http://b:1"], "http://b:1: it is given twice"],
    [
      [...PAIR, "--prefill", "http://a:1", "none", "--decode-policy", "power_of_two"],
      "Power-of-two policy for decode requires at least 2 decode workers",
    ],
    [
      [...PAIR, "--prefill", "http://a:1", "--worker-urls", "http://c:1"],
      "with --pd-disaggregation servers have roles",
    ],
    [
      [...PAIR, "--prefill", "http://a:1", "--dp-aware"],
      "Cannot use option --dp-aware: prefill and decode servers choose among their replicas themselves",
    ],
    [["--selector", "a=b"], "Cannot use option --selector: it needs --service-discovery"],
    [["--service-discovery", "--selector", "a=b"], "this process is in no cluster"],
    [DISCOVERY, "it needs --selector, which says what pods are workers"],
    [[...DISCOVERY, "--selector", "a"], "--selector a: it must be LABEL=VALUE"],
    [[...DISCOVERY, "--decode-selector", "a=b"], "--decode-selector: it needs --pd-disaggreg"],
    [
      [...DISCOVERY, "--pd-disaggregation", "--selector", "a=b"],
      "with --pd-disaggregation servers have roles: --prefill-selector, --decode-selector",
    ],
    [[...DISCOVERY, "--pd-disaggregation"], "it needs --prefill-selector or --decode-selector"],
    [
      [...DISCOVERY, "--pd-disaggregation", "--decode-selector", "a=b"],
      "PD mode requires at least one prefill worker URL",
    ],
    [
      [...DISCOVERY, "--selector", "a=b", "--service-discovery-namespace", "A/B"],
      "--service-discovery-namespace A/B: it is no name of a namespace",
    ],
    [
      ["--service-discovery", "--selector", "a=b", "--service-discovery-api", "ftp://a"],
      "--service-discovery-api ftp://a: it must be an http or https address",
    ],
    [["--cors-allowed-origins", "example.org"], "--allowed-origins example.org: it is no origin"],
    [["extra"], 'Cannot use argument "extra"'],
  ])("of no use ends the start: %j", async (args, message) => {
    const { code, stderr } = await failed(args);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
  });

  test("stands in the help", async () => {
    const help = startCommand(["launch_router", "--help"]);
    expect(await help.code).toBe(0);
    for (const { flags } of Object.values(ROUTER_OPTIONS))
      expect(help.stdout()).toContain(flags[0]);
  });
});
