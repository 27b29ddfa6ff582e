import { afterEach, describe, expect, test } from "vitest";
import { MAX_EVENT_BYTES } from "../../src/router/discovery/event_lines.ts";
import type { PodRule } from "../../src/router/discovery/pod.ts";
import { fakeCluster, refuse } from "../support/router/fake_cluster.ts";
import {
  follow,
  kinds,
  podServers,
  TIMES,
  watching,
  workersAre,
} from "../support/router/pod_router.ts";
import { postTo } from "../support/router/running_router.ts";
import { closeAll } from "../support/router/worker_servers.ts";
import { until } from "../support/until.ts";

afterEach(closeAll);

const ROLES: readonly PodRule[] = [
  { role: "prefill", labels: { app: "wisp", part: "prefill" } },
  { role: "decode", labels: { app: "wisp", part: "decode" } },
];

const IPS = ["127.0.0.1", "127.0.0.2", "127.0.0.3"] as const;

describe("a pod is a worker", () => {
  test("while it is ready, has the labels and an address, and is not about to end", async () => {
    const [cluster, servers] = [await fakeCluster(), await podServers()];
    cluster.put("a");
    cluster.put("other", { labels: { app: "other" }, ip: "127.0.0.9" });
    const { router } = await follow(cluster, servers);
    await workersAre(router, servers.port, ["127.0.0.1"]);
    await watching(cluster);
    cluster.put("b", { ip: "127.0.0.2", isReady: false });
    cluster.put("c", { ip: "127.0.0.3", phase: "Pending" });
    cluster.put("d", { ip: "no address" });
    cluster.put("e", { ip: "127.0.0.4", isLeaving: true });
    cluster.put("b", { ip: "127.0.0.2" });
    await workersAre(router, servers.port, ["127.0.0.1", "127.0.0.2"]);
    cluster.put("c", { ip: "127.0.0.3" });
    cluster.put("a", { isReady: false });
    await workersAre(router, servers.port, ["127.0.0.2", "127.0.0.3"]);
    cluster.put("b", { ip: "127.0.0.2", isLeaving: true });
    await workersAre(router, servers.port, ["127.0.0.3"]);
    cluster.remove("c");
    await workersAre(router, servers.port, []);
    cluster.put("a");
    await workersAre(router, servers.port, ["127.0.0.1"]);
    expect(kinds(cluster)).toEqual(["list", "watch"]);
  });

  test("that ends what it answers when its pod is about to end", async () => {
    const [cluster, servers] = [await fakeCluster(), await podServers()];
    cluster.put("a");
    const { router } = await follow(cluster, servers);
    await workersAre(router, servers.port, ["127.0.0.1"]);
    const answer = postTo(router.url, "/generate", { text: "x" });
    await until(() => expect(router.workers.all[0]!.inFlight).toBe(1));
    await watching(cluster);
    cluster.put("a", { isLeaving: true });
    await until(() => expect(router.workers.all).toEqual([]));
    expect(router.workers.draining).toHaveLength(1);
    servers.release();
    expect(await (await answer).json()).toEqual({ at: `127.0.0.1:${servers.port}` });
    await until(() => expect(router.workers.draining).toEqual([]));
  });

  test("of the role whose labels it has, with the bootstrap port of its annotation", async () => {
    const [cluster, servers] = [await fakeCluster(), await podServers()];
    servers.release();
    const of = (part: string) => ({ app: "wisp", part });
    const annotated = (port: string) => ({ "sglang.ai/bootstrap-port": port });
    cluster.put("p", { labels: of("prefill"), annotations: annotated("8999") });
    cluster.put("q", { labels: of("prefill"), annotations: annotated("x"), ip: "127.0.0.2" });
    cluster.put("d", { labels: of("decode"), annotations: annotated("1"), ip: "127.0.0.3" });
    cluster.put("r", { labels: of("router"), ip: "127.0.0.4" });
    const { router } = await follow(cluster, servers, { rules: ROLES });
    await workersAre(router, servers.port, [...IPS]);
    expect(router.workers.all.map(({ role, bootstrapPort }) => [role, bootstrapPort])).toEqual([
      ["prefill", 8999],
      ["prefill", null],
      ["decode", null],
    ]);
    // Only what both have in common can be asked of the cluster.
    expect(cluster.asked[0]!.query.get("labelSelector")).toBe("app=wisp");
    await watching(cluster);
    cluster.put("p", { labels: of("prefill"), annotations: annotated("9000") });
    await until(() => expect(router.workers.all.at(-1)!.bootstrapPort).toBe(9000));
  });

  test("anew when another pod has its address, and once where two have it", async () => {
    const [cluster, servers] = [await fakeCluster(), await podServers()];
    cluster.put("a");
    const { router } = await follow(cluster, servers);
    await workersAre(router, servers.port, ["127.0.0.1"]);
    await watching(cluster);
    const first = router.workers.all[0];
    cluster.put("b");
    cluster.bookmark();
    cluster.put("c", { ip: "127.0.0.2" });
    await workersAre(router, servers.port, ["127.0.0.1", "127.0.0.2"]);
    expect(router.workers.all[0]).toBe(first);
    cluster.remove("a");
    await until(() => expect(router.workers.all.map(({ url }) => url)).toHaveLength(2));
    await until(() => expect(router.workers.all).not.toContain(first));
    await workersAre(router, servers.port, ["127.0.0.1", "127.0.0.2"]);
  });

  test("but not where one of its address was added by hand, nor once it was removed by hand", async () => {
    const [cluster, servers] = [await fakeCluster(), await podServers()];
    const { router, told } = await follow(cluster, servers);
    const own = router.workers.add(`http://127.0.0.1:${servers.port}`);
    await router.checks.admit(own);
    await watching(cluster);
    cluster.put("a");
    cluster.put("b", { ip: "127.0.0.2" });
    await workersAre(router, servers.port, ["127.0.0.1", "127.0.0.2"]);
    expect(told.filter((text) => text.includes("already exists"))).toHaveLength(1);
    cluster.remove("a");
    router.workers.remove(`http://127.0.0.2:${servers.port}`);
    cluster.put("c", { ip: "127.0.0.3" });
    await workersAre(router, servers.port, ["127.0.0.1", "127.0.0.3"]);
    expect(router.workers.all[0]).toBe(own);
    cluster.put("b", { ip: "127.0.0.2", isReady: false });
    cluster.put("b", { ip: "127.0.0.2" });
    await workersAre(router, servers.port, [...IPS]);
  });
});

describe("a watch", () => {
  test("that breaks off within an event goes on from the last whole one", async () => {
    const [cluster, servers] = [await fakeCluster(), await podServers()];
    const { router } = await follow(cluster, servers);
    await watching(cluster);
    cluster.put("a");
    await workersAre(router, servers.port, ["127.0.0.1"]);
    cluster.send('{"type":"DELETED","object":{"metadata":{"uid":"uid-of-a","resour');
    cluster.breakOff();
    cluster.put("b", { ip: "127.0.0.2" });
    await workersAre(router, servers.port, ["127.0.0.1", "127.0.0.2"]);
    expect(kinds(cluster)).toEqual(["list", "watch", "watch"]);
    expect(cluster.asked[2]!.query.get("resourceVersion")).toBe("101");
  });

  test("that ends goes on from its last bookmark, though older changes are forgotten", async () => {
    const [cluster, servers] = [await fakeCluster(), await podServers()];
    cluster.put("a");
    const { router } = await follow(cluster, servers);
    await workersAre(router, servers.port, ["127.0.0.1"]);
    await watching(cluster);
    expect(cluster.asked[1]!.query.get("allowWatchBookmarks")).toBe("true");
    cluster.bookmark();
    cluster.compact();
    // Until the bookmark has come, an end would be one without progress.
    await new Promise((resolve) => setTimeout(resolve, 50));
    cluster.end();
    await until(() => expect(kinds(cluster)).toEqual(["list", "watch", "watch"]));
    await watching(cluster);
    expect(cluster.asked[2]!.query.get("resourceVersion")).toBe("102");
    expect(router.workers.available).toHaveLength(1);
  });

  test.each(["an event", "a status"])(
    "whose past is gone begins with a list, told by %s",
    async (how) => {
      const [cluster, servers] = [await fakeCluster(), await podServers()];
      cluster.put("a");
      const { router } = await follow(cluster, servers);
      await workersAre(router, servers.port, ["127.0.0.1"]);
      await watching(cluster);
      cluster.breakOff();
      if (how === "a status") cluster.faults.push((response) => refuse(response, 410));
      cluster.remove("a");
      cluster.put("b", { ip: "127.0.0.2" });
      cluster.compact();
      await workersAre(router, servers.port, ["127.0.0.2"]);
      await watching(cluster);
      expect(kinds(cluster)).toEqual(["list", "watch", "watch", "list", "watch"]);
    },
  );

  test.each([
    ["what is no JSON", "no JSON\n"],
    ["an event without a type", '{"object":{"metadata":{"resourceVersion":"7"}}}\n'],
    ["a list in place of an event", "[]\n"],
    ["a pod without an id", '{"type":"ADDED","object":{"metadata":{"resourceVersion":"7"}}}\n'],
    ["a pod without a version", '{"type":"ADDED","object":{"metadata":{"uid":"7"}}}\n'],
    ["an event without an end", "x".repeat(MAX_EVENT_BYTES + 1)],
    ["an error", '{"type":"ERROR","object":{"code":500,"message":"broken"}}\n'],
  ])("that brings %s is begun anew, and no worker is lost for it", async (_what, text) => {
    const [cluster, servers] = [await fakeCluster(), await podServers()];
    cluster.put("a");
    const { router, told } = await follow(cluster, servers);
    await workersAre(router, servers.port, ["127.0.0.1"]);
    const [worker] = router.workers.all;
    await watching(cluster);
    cluster.send(text);
    await until(() => expect(told.at(-1)).toBe("The pods of the cluster are followed again"));
    await watching(cluster);
    expect(told.filter((line) => line.startsWith("Cannot follow"))).toHaveLength(1);
    cluster.put("b", { ip: "127.0.0.2" });
    await workersAre(router, servers.port, ["127.0.0.1", "127.0.0.2"]);
    expect(router.workers.all[0]).toBe(worker);
  });

  test("that is silent for longer than the cluster lets it be is given up", async () => {
    const [cluster, servers] = [await fakeCluster(), await podServers()];
    cluster.put("a");
    const { router } = await follow(cluster, servers, { times: { ...TIMES, watch: 200 } });
    await workersAre(router, servers.port, ["127.0.0.1"]);
    expect(cluster.asked.at(-1)!.query.get("timeoutSeconds")).toBe("1");
    await until(() => expect(cluster.asked.length).toBeGreaterThan(2));
    expect(new Set(kinds(cluster).slice(1))).toEqual(new Set(["watch"]));
  });
});
