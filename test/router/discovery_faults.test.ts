import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { MAX_LIST_BYTES, MAX_PODS } from "../../src/router/discovery/pod_watch.ts";
import { fakeCluster, refuse } from "../support/router/fake_cluster.ts";
import { follow, podServers, watching, workersAre } from "../support/router/pod_router.ts";
import { closeAfterwards, closeAll, freeUrl } from "../support/router/worker_servers.ts";
import { until } from "../support/until.ts";

afterEach(closeAll);

describe("a list", () => {
  test("is read in parts, of one namespace where it is given", async () => {
    const [cluster, servers] = [await fakeCluster(), await podServers()];
    for (let i = 0; i < 250; i++) cluster.put(`pod-${i}`, { ip: `127.0.1.${i}` });
    const { router } = await follow(cluster, servers, { namespace: "mine" });
    await until(() => expect(router.workers.available).toHaveLength(250));
    const lists = cluster.asked.filter(({ kind }) => kind === "list");
    expect(lists.map(({ query }) => query.get("continue"))).toEqual([null, "100,350", "200,350"]);
    expect(new Set(cluster.asked.map(({ path }) => path))).toEqual(
      new Set(["/api/v1/namespaces/mine/pods"]),
    );
    expect(lists[0]!.query.get("labelSelector")).toBe("app=wisp");
  });

  test("whose later part is gone is begun anew", async () => {
    const [cluster, servers] = [await fakeCluster(), await podServers()];
    for (let i = 0; i < 150; i++) cluster.put(`pod-${i}`, { ip: `127.0.1.${i}` });
    cluster.faults.push((response, asked) => {
      cluster.answer({ url: `/api/v1/pods?${asked.query}`, headers: {} } as never, response);
      cluster.put("late", { ip: "127.0.0.2" });
      cluster.compact();
    });
    const { router } = await follow(cluster, servers);
    await until(() => expect(router.workers.available).toHaveLength(151));
  });

  test("with pods of many bytes is read in smaller parts", async () => {
    const [cluster, servers] = [await fakeCluster(), await podServers()];
    const note = "x".repeat(MAX_LIST_BYTES / 16);
    for (let i = 0; i < 20; i++) {
      cluster.put(`pod-${i}`, { ip: `127.0.1.${i}`, annotations: { note } });
    }
    const { router, told } = await follow(cluster, servers);
    await until(() => expect(router.workers.available).toHaveLength(20));
    const limits = cluster.asked.map(({ query }) => query.get("limit"));
    expect(limits).toEqual(["100", "50", "25", "12", "12", null]);
    expect(told.filter((text) => text.startsWith("Cannot"))).toEqual([]);
  });

  test.each([
    ["no list", "{}"],
    ["a part that is none", '{"items":[],"metadata":{"resourceVersion":"1","continue":7}}'],
    ["no version", '{"items":[],"metadata":{}}'],
    ["a pod that is none", '{"items":[null],"metadata":{"resourceVersion":"1"}}'],
    ["half a list", '{"items":['],
    ["too many workers", manyPods()],
  ])("that is wrong is asked for again, and takes nothing away: %s", async (_what, text) => {
    const [cluster, servers] = [await fakeCluster(), await podServers()];
    cluster.put("a");
    const { router, told } = await follow(cluster, servers);
    await workersAre(router, servers.port, ["127.0.0.1"]);
    const [worker] = router.workers.all;
    await watching(cluster);
    for (let i = 0; i < 3; i++) cluster.faults.push((response) => void response.end(text));
    cluster.send("no JSON\n");
    cluster.end();
    await until(() => expect(told.at(-1)).toBe("The pods of the cluster are followed again"));
    expect(router.workers.all).toEqual([worker]);
  });
});

function manyPods(): string {
  const pod = (i: number) => ({
    metadata: { uid: `${i}`, labels: { app: "wisp" } },
    status: {
      phase: "Running",
      podIP: `10.0.${i >> 8}.${i & 255}`,
      conditions: [{ type: "Ready", status: "True" }],
    },
  });
  const items = Array.from({ length: MAX_PODS + 1 }, (_, i) => pod(i));
  return JSON.stringify({ items, metadata: { resourceVersion: "1" } });
}

describe("a cluster", () => {
  test("that cannot be reached, forbids or fails is tried again, and told of once", async () => {
    const servers = await podServers();
    const gone = await follow({ url: await freeUrl() }, servers);
    await until(() => expect(gone.told.at(-1)).toContain("Cannot reach the cluster: ECONNREFUSED"));
    const cluster = await fakeCluster();
    cluster.put("a");
    for (let i = 0; i < 6; i++) cluster.faults.push((response) => refuse(response, 403));
    cluster.faults.push((response) => void response.destroy());
    const { router, told } = await follow(cluster, servers);
    await workersAre(router, servers.port, ["127.0.0.1"]);
    expect(told.slice(0, 2)).toEqual([
      "Cannot follow the pods of the cluster: it answers 403: status 403",
      expect.stringContaining("Cannot follow the pods of the cluster"),
    ]);
    expect(told[2]).toBe("The pods of the cluster are followed again");
  });

  test("waits longer each time, at most its limit", async () => {
    const [cluster, servers] = [await fakeCluster(), await podServers()];
    const at: number[] = [];
    for (let i = 0; i < 8; i++) {
      cluster.faults.push((response) => {
        at.push(performance.now());
        refuse(response, 500);
      });
    }
    await follow(cluster, servers, { times: { backoff: 20, longestBackoff: 80, watch: 60_000 } });
    await watching(cluster);
    const waits = at.slice(1).map((time, i) => time - at[i]!);
    const least = [20, 40, 80, 80, 80, 80, 80].map((wait) => 0.75 * wait - 1);
    expect(waits.every((wait, i) => wait >= least[i]!)).toBe(true);
  });

  test("that tells of its end again and again is not asked without a pause", async () => {
    const [cluster, servers] = [await fakeCluster(), await podServers()];
    const times = { backoff: 50, longestBackoff: 400, watch: 60_000 };
    for (let i = 0; i < 1000; i++) {
      cluster.faults.push((response, { kind }) =>
        kind === "watch" ? refuse(response, 410) : void response.end(EMPTY),
      );
    }
    await follow(cluster, servers, { times });
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(cluster.asked.length).toBeGreaterThan(2);
    expect(cluster.asked.length).toBeLessThan(20);
  });
});

const EMPTY = '{"items":[],"metadata":{"resourceVersion":"1"}}';

/** A certificate for 127.0.0.1 and its key; undefined where the machine makes none. */
function certificate(folder: string) {
  const files = ["-keyout", join(folder, "key"), "-out", join(folder, "ca.crt")];
  const name = ["-subj", "/CN=cluster", "-addext", "subjectAltName=IP:127.0.0.1"];
  const kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  try {
    execFileSync("openssl", ["req", ...kind, "-days", "2", ...name, ...files], { stdio: "ignore" });
  } catch {
    return undefined;
  }
  const [key, cert] = ["key", "ca.crt"].map((file) => readFileSync(join(folder, file)));
  return { key: key!, cert: cert! };
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "account-"));
  closeAfterwards(async () => rmSync(folder, { recursive: true }));
  return folder;
}

describe("a service account", () => {
  test("is read again for each request, as its token and its certificates change", async ({
    skip,
  }) => {
    const [folder, later] = [newFolder(), newFolder()];
    const [first, second] = [certificate(folder), certificate(later)];
    if (first === undefined || second === undefined) skip("openssl is not installed");
    const [cluster, servers] = [await fakeCluster(first), await podServers()];
    writeFileSync(join(folder, "token"), "one\n");
    cluster.token = "one";
    cluster.put("a");
    const { router, told } = await follow(cluster, servers, { folder });
    await workersAre(router, servers.port, ["127.0.0.1"]);
    await watching(cluster);
    cluster.token = "two";
    cluster.end();
    await until(() => expect(told.at(-1)).toContain("it answers 401"));
    writeFileSync(join(folder, "token"), "two");
    await watching(cluster);
    cluster.put("b", { ip: "127.0.0.2" });
    await workersAre(router, servers.port, ["127.0.0.1", "127.0.0.2"]);
    expect(new Set(cluster.asked.map(({ token }) => token))).toEqual(new Set(["one", "two"]));

    writeFileSync(join(folder, "ca.crt"), second!.cert);
    cluster.breakOff();
    await until(() => expect(told.at(-1)).toMatch(/Cannot reach the cluster: .*(CERT|SIGN)/));
    expect(router.workers.available).toHaveLength(2);
    writeFileSync(join(folder, "ca.crt"), first!.cert);
    await watching(cluster);
  });

  test("is not sent where what is sent can be read by others", async () => {
    const [cluster, servers, folder] = [await fakeCluster(), await podServers(), newFolder()];
    writeFileSync(join(folder, "token"), "secret");
    await follow(cluster, servers, { folder });
    await watching(cluster);
    expect(cluster.asked.map(({ token }) => token)).toEqual([undefined, undefined]);
  });

  test("that is not there is told of", async () => {
    const { told } = await follow({ url: "https://127.0.0.1:1" }, { port: 1 }, { folder: "/none" });
    await until(() => expect(told.at(-1)).toContain("/none/token"));
  });
});
