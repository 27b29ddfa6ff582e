/**
 * The pods of `deploy/reference` as installed programs, each in a network of its own, with the settings
 * of the reference scaled down to the embedded model.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { optionsOf } from "../../support/deploy/manifest_links.ts";
import {
  hasKustomize,
  type PodTemplate,
  podTemplates,
  rendered,
} from "../../support/deploy/manifests.ts";
import {
  HOST_ADDRESS,
  type PodNetwork,
  podNetworks,
  removePodNetworks,
} from "../../support/deploy/pod_networks.ts";
import { type FakeCluster, fakeCluster } from "../../support/router/fake_cluster.ts";
import { closeAll } from "../../support/router/worker_servers.ts";
import { until } from "../../support/until.ts";
import { type StartedWisp, scratch, serveWisp, startWisp, stopAll } from "../support/wisp.ts";

const PODS = 5;

afterAll(async () => {
  await stopAll();
  await closeAll();
  removePodNetworks(PODS);
});

/** Of what the reference has for machines of eight devices, what this one can do. */
const SCALED: Readonly<Record<string, string | undefined>> = {
  "--tp": "2",
  "--dp-size": "2",
  "--chunked-prefill-size": "128",
  "--max-prefill-tokens": "64",
  "--context-length": "1024",
  "--max-running-requests": "4",
  "--cuda-graph-max-bs": "2",
  "--ep-num-redundant-experts": "2",
  "--model-path": undefined,
  "--dist-timeout": "240",
  // Ranks share an adapter that there is only one of.
  "--base-gpu-id": undefined,
};

/** Variables of the reference's hosts that mean nothing here. */
const WITHOUT_EFFECT = {
  NCCL_IB_GID_INDEX: "3",
  NCCL_IB_HCA: "mlx5_0",
  NVSHMEM_IB_TRAFFIC_CLASS: "16",
  SVC_HACK_DEEPEP_NEW_MODE: "0",
  SVC_HACK_DEEPEP_NUM_SMS: "8",
};

/** UCX would find the memory that pods on one machine share. */
const OF_SERVERS = { ...WITHOUT_EFFECT, SVC_ENABLE_JIT_DEEPGEMM: "1", UCX_TLS: "tcp,self" };

interface Pod extends StartedWisp {
  readonly name: string;
  readonly address: string;
}

/** What its group tells a pod; one without a group takes no notice. */
function groupOf({ name }: PodTemplate, networks: ReadonlyMap<string, PodNetwork>) {
  const leader = networks.get(name.replace(/-worker$/, "-leader"))!;
  const index = name.endsWith("-worker") ? "1" : "0";
  return { LWS_WORKER_INDEX: index, LWS_LEADER_ADDRESS: leader.address };
}

/** Runs a pod's command, and tells the cluster of the pod once its port is open. */
function runPod(
  pod: PodTemplate,
  networks: ReadonlyMap<string, PodNetwork>,
  { cluster, keys }: { readonly cluster: FakeCluster; readonly keys: string },
): Pod {
  const { name, template } = pod;
  const network = networks.get(name)!;
  const [container] = template.spec.containers;
  const [command, ...args] = optionsOf(container, groupOf(pod, networks)).flatMap((arg) => {
    const [flag = "", value] = arg.split("=");
    if (flag === "--config") return [`--config=${value!.replace("/etc/wisp", keys)}`];
    if (!Object.hasOwn(SCALED, flag)) return [arg];
    return SCALED[flag] === undefined ? [] : [`${flag}=${SCALED[flag]}`];
  });
  const isRouter = command === "launch_router";
  const more = isRouter
    ? ["--service-discovery-api", cluster.url]
    : ["--max-total-tokens=2048", "--disaggregation-heartbeat-interval=1"];
  const own = (container.env ?? []) as readonly {
    readonly name: string;
    readonly value?: string;
  }[];
  const env = {
    ...(!isRouter && OF_SERVERS),
    ...Object.fromEntries(own.map((variable) => [variable.name, variable.value])),
  };
  const started = startWisp([command!, ...args, ...more], { launcher: network.launcher, env });
  const { labels, annotations = {} } = template.metadata;
  const { address: ip } = network;
  cluster.put(name, { ip, labels, annotations, isReady: false });
  void started
    .sees(/Listening on|Health of node/)
    .then(() => cluster.put(name, { ip, labels, annotations }))
    .catch(() => {});
  return { ...started, name, address: ip };
}

const MESSAGES = [{ role: "user", content: "Tell me of a river. ".repeat(8) }];
const CHAT = { messages: MESSAGES, max_tokens: 12, temperature: 0 };
const authorization = "Bearer of-clients";

async function chat(url: string): Promise<unknown> {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization },
    body: JSON.stringify(CHAT),
  });
  const { choices } = (await answer.json()) as { readonly choices?: unknown };
  return [answer.status, choices];
}

async function infoOf({ address }: Pod): Promise<Record<string, unknown>> {
  const answer = await fetch(`http://${address}:30000/get_server_info`, {
    headers: { authorization },
  });
  return (await answer.json()) as Record<string, unknown>;
}

/** Five programs start at once, with a rank process each but the router. */
const timeout = 300_000;

test("pods with the reference's settings find each other and answer a chat", { timeout }, async ({
  skip,
}) => {
  if (!hasKustomize) skip("kubectl is not installed");
  const networks = podNetworks(PODS);
  if (networks === undefined) skip("only root may make networks");
  const keys = scratch("keys");
  const key = { "api-key": "of-clients" };
  writeFileSync(join(keys, "router.json"), JSON.stringify(key));
  const secrets = { ...key, "disaggregation-key": "of the group" };
  writeFileSync(join(keys, "server.json"), JSON.stringify(secrets));
  const cluster = await fakeCluster(undefined, HOST_ADDRESS);
  const templates = podTemplates(rendered("reference"));
  expect(templates).toHaveLength(PODS);
  const places = new Map(templates.map(({ name }, i) => [name, networks![i]!]));
  const pods = templates.map((template) => runPod(template, places, { cluster, keys }));
  const named = (name: string) => pods.find((pod) => pod.name === name)!;
  const router = named("wisp-router");
  const [prefill, decode] = [named("wisp-prefill-leader"), named("wisp-decode-leader")];
  const one = await serveWisp(["--page-size", "64", "--api-key", "of-clients"]);
  const url = `http://${router.address}:8000`;
  const ready = until(async () => {
    expect((await fetch(`${url}/readiness`).catch(() => undefined))?.status).toBe(200);
  });
  const ends = pods.map(async (pod) => {
    const [code] = await pod.closed;
    throw new Error(`Cannot go on: ${pod.name} has ended with ${code}: ${pod.output()}`);
  });
  for (const end of ends) end.catch(() => {});
  await Promise.race([ready, ...ends]);
  const right = await chat(one.url);
  expect(right).toEqual([200, [expect.anything()]]);
  expect(await chat(url)).toEqual(right);

  const [first, second] = [await infoOf(prefill), await infoOf(decode)];
  expect(first).toMatchObject({
    ...{
      disaggregation_mode: "prefill",
      tp_size: 2,
      dp_size: 2,
      nnodes: 2,
      page_size: 64,
      chunked_prefill_size: 128,
    },
    ...{ max_prefill_tokens: 64, context_length: 1024, max_running_requests: 4 },
    ...{ mem_fraction_static: 0.7, disable_radix_cache: true, ep_num_redundant_experts: 2 },
  });
  expect(second).toMatchObject({
    ...{
      disaggregation_mode: "decode",
      tp_size: 2,
      dp_size: 2,
      nnodes: 2,
      page_size: 64,
      mem_fraction_static: 0.849,
    },
    ...{ enable_dp_attention: true, moe_dense_tp_size: 1 },
    ...{ cuda_graph_max_bs: 2, ep_num_redundant_experts: 2 },
  });
  const moved = [first, second].map(({ disaggregation }) => {
    const { pages, failed } = disaggregation as { readonly pages: number; readonly failed: number };
    return [pages > 0, failed];
  });
  expect(moved).toEqual([
    [true, 0],
    [true, 0],
  ]);
  for (const pod of [prefill, decode]) {
    for (const name of Object.keys(WITHOUT_EFFECT)) {
      const lines = pod.output().split("\n");
      expect(lines.filter((line) => line.includes(`variable ${name} has no effect`))).toHaveLength(
        1,
      );
    }
    expect(pod.output()).not.toMatch(/variable SVC_(MOONCAKE|CHUNKED|ENABLE)/);
  }
  for (const part of ["router", "decode", "prefill"]) {
    const ending = pods.filter(({ name }) => name.startsWith(`wisp-${part}`));
    for (const pod of ending) pod.process.kill("SIGTERM");
    for (const pod of ending) expect((await pod.closed)[0], pod.output()).toBe(0);
  }
});
