/** How nodes with replicas come to node 0: who is taken, who is not, and what is noticed of one that is gone. */
import { connect } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { serveEngine, servePort } from "../../../src/engine/remote/serve_engine.ts";
import type { GenerationChunk } from "../../../src/generation.ts";
import { EXIT } from "../../../src/node/mpi/launch_error.ts";
import type { Address } from "../../../src/node/mpi/nodes.ts";
import { joinNode0 } from "../../../src/node/replicas/join_replicas.ts";
import { MAX_NODE_UNSENT_BYTES, type NodePort } from "../../../src/node/replicas/node_port.ts";
import { JOIN_HEADER, ReplicaNodes } from "../../../src/node/replicas/replica_nodes.ts";
import { openReplica } from "../../../src/node/replicas/replicas_of_nodes.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { freePort } from "../../support/mpi/processes.ts";
import { until } from "../../support/until.ts";

const FACTS = { version: "1", "--dp-size": 6, "--restart": false };
const LONG = 600_000;
/** An answer that does not end by itself. */
const endless = () => ({ pieces: ["a", "b"], gate: (i: number) => (i === 0 ? READY : HELD) });
const READY = Promise.resolve();
const HELD = new Promise<void>(() => {});
const never = new AbortController().signal;

let ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends) end();
  ends = [];
});

/** Node 0 of three with two replicas each. */
async function setUp(options: { readonly timeout?: number; readonly beat?: number } = {}) {
  const address = { host: "127.0.0.1", port: await freePort() };
  const given = { timeout: LONG, ...options };
  const sizes = { nodes: 3, replicasPerNode: 2 };
  const nodes = await ReplicaNodes.listen({ address, facts: FACTS, ...sizes, ...given });
  ends.push(() => nodes.close());
  const join = async (replica: number, facts: object = {}, timeout = LONG) => {
    const all = { ...FACTS, ...facts };
    const port = await joinNode0(replica, { address, facts: all, timeout, signal: never });
    ends.push(() => port.close());
    return port;
  };
  return { address, nodes, join };
}

const heardBy = (port: NodePort) =>
  new Promise((resolve) => {
    port.onMessage = resolve;
  });

/** What the server at the address answers to a connection that asks to speak as a replica. */
function upgrade({ port }: Address, header: string | undefined): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    ends.push(() => socket.destroy());
    const lines = [
      ...["GET / HTTP/1.1", "host: node", "connection: upgrade", "upgrade: websocket"],
      ...["sec-websocket-version: 13", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="],
      ...(header === undefined ? [] : [`${JOIN_HEADER}: ${header}`]),
    ];
    socket.setEncoding("utf8").once("data", (text) => resolve(`${text}`));
    socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  });
}
const headerOf = (join: unknown) => Buffer.from(JSON.stringify(join)).toString("base64url");

test("one that has loaded and ended since is not asked, and never waited for", async () => {
  const { nodes, join } = await setUp();
  const far = await join(5);
  far.post({ type: "loaded", adapter: "A" });
  far.close();
  const port = await nodes.connection(5, never);
  await port.left;
  const first = { path: "model", adapter: "A" };
  const opened = openReplica(port, { node: 2, signal: never, first });
  await expect(opened).rejects.toMatchObject({
    message: expect.stringContaining("Cannot go on without the replica on node 2: "),
    exitCode: EXIT.lost,
  });
});

test("a request that a connection has no room for is refused, and the next one is answered", async () => {
  const { nodes, join } = await setUp();
  const far = await join(5);
  far.post({ type: "loaded", adapter: "A" });
  const end = serveEngine(new ScriptedEngine(), far);
  ends.push(end);
  const port = await nodes.connection(5, never);
  const first = { path: "model", adapter: "A" };
  const engine = await openReplica(port, { node: 2, signal: never, first });
  const request = { tokens: [97, 98], sampling: { maxNewTokens: 2 } };
  const tokens = async () => {
    let count = 0;
    for await (const chunk of engine.generate(request)) count += chunk.tokens.length;
    return count;
  };
  // What the other end does not know it leaves alone.
  port.post(new Uint8Array(MAX_NODE_UNSENT_BYTES + 1));
  await expect(tokens()).rejects.toMatchObject({
    code: "capacity_exceeded",
    message: expect.stringContaining(`${MAX_NODE_UNSENT_BYTES} bytes wait to be sent to node 2`),
  });
  await until(() => expect(port.isFull).toBe(false));
  expect(await tokens()).toBe(2);
  await engine.close();
});

test("one that is stopped answers what it was asked, and is asked nothing more", async () => {
  const { nodes, join } = await setUp();
  const far = await join(5);
  far.post({ type: "loaded", adapter: "A" });
  const served = servePort(new ScriptedEngine({ script: endless }), far);
  const port = await nodes.connection(5, never);
  const first = { path: "model", adapter: "A" };
  const engine = await openReplica(port, { node: 2, signal: never, first });
  const ask = (requestId: string): AsyncIterator<GenerationChunk> =>
    engine.generate({ tokens: [97], requestId })[Symbol.asyncIterator]();
  const [one, two] = [ask("one"), ask("two")];
  expect((await one.next()).value.finish).toBeNull();
  // Asked in the same turn as the word of the other end comes.
  const second = two.next();
  const left = far.leave().then(() => served.drain("node 2 is stopped"));
  await until(() => expect(engine.status()).toMatchObject({ healthy: true, draining: true }));
  await expect(ask("three").next()).rejects.toThrow(
    "Cannot generate: node 2, which has the replica, is being stopped",
  );
  expect((await second).value.finish).toBeNull();
  expect(await engine.tokenize({ prompt: "ab" })).toHaveLength(2);
  expect(port.isOver).toBe(false);
  engine.abort("one");
  expect(await lastOf(one)).toMatchObject({ finish: { type: "abort" } });
  expect(port.isOver).toBe(false);
  engine.abort("two");
  expect(await lastOf(two)).toMatchObject({ finish: { type: "abort" } });
  await left;
  await expect(engine.lost).rejects.toThrow(
    "Cannot go on without the replica on node 2: node 2 is stopped",
  );
  expect([await far.left, port.isOver]).toEqual([undefined, true]);
});

/** The last chunk of an answer. */
async function lastOf(answer: AsyncIterator<GenerationChunk>): Promise<GenerationChunk> {
  for (;;) {
    const { value } = await answer.next();
    if (value.finish !== null) return value;
  }
}

test("one with other options that comes once all have met keeps no replica from coming again", async () => {
  const { nodes, join } = await setUp();
  const ports = [await join(2), await join(3), await join(4), await join(5)];
  await nodes.meet();
  const first = await nodes.connection(5, never);
  ports[3]!.close();
  await first.left;
  await expect(join(5, { "--dp-size": 7 })).rejects.toMatchObject({ exitCode: EXIT.failed });
  const again = nodes.connection(5, never);
  await join(5);
  expect((await again).isOver).toBe(false);
});

test("all replicas of all other nodes are awaited, and speak with node 0 in order", async () => {
  const { nodes, join } = await setUp();
  let haveMet = false;
  const met = nodes.meet().then(() => {
    haveMet = true;
  });
  const ports = [await join(5), await join(2), await join(4)];
  ports[0]!.post("early");
  expect(haveMet).toBe(false);
  ports.push(await join(3));
  await met;
  const port = await nodes.connection(5, never);
  ports[0]!.post({ rows: Float32Array.of(1, 2.5), none: undefined });
  const messages: unknown[] = [];
  await new Promise<void>((resolve) => {
    port.onMessage = (message) => {
      if (messages.push(message) === 2) resolve();
    };
  });
  expect(messages).toEqual(["early", { rows: Float32Array.of(1, 2.5), none: undefined }]);
  const heard = heardBy(ports[0]!);
  port.post(["from", 0]);
  expect(await heard).toEqual(["from", 0]);
});

test("an end is told with its reason where it was not closed there, after what was said before", async () => {
  const { nodes, join } = await setUp();
  const far = await join(2);
  const near = await nodes.connection(2, never);
  let problem: string | undefined;
  near.onEnd = (text) => {
    problem = text;
  };
  far.post("last words");
  far.close();
  expect([await far.left, await near.left]).toEqual([undefined, "its connection has ended"]);
  expect([problem, near.isOver]).toEqual(["its connection has ended", true]);
  expect(await heardBy(near)).toBe("last words");
});

test("a replica comes again once it has left, and not before", async () => {
  const { nodes, join } = await setUp();
  const first = await join(2);
  const near = await nodes.connection(2, never);
  const again = join(2);
  await expect(join(2, {}, 0)).rejects.toMatchObject({
    exitCode: EXIT.timeout,
    message: expect.stringContaining("Cannot join with replica 2: another launcher has"),
  });
  first.close();
  await near.left;
  const next = await nodes.connection(2, never);
  expect(next).not.toBe(near);
  next.post("hello");
  expect(await heardBy(await again)).toBe("hello");
});

describe("refused", () => {
  test("is a node with other options, on both sides, by the first that differs", async () => {
    const { nodes, join } = await setUp();
    const met = nodes.meet();
    const failure = {
      exitCode: EXIT.failed,
      message: "Cannot start nodes with different options: --dp-size is 6 on node 0, 4 on node 2",
    };
    await Promise.all([
      expect(join(4, { "--dp-size": 4 })).rejects.toMatchObject(failure),
      expect(met).rejects.toMatchObject(failure),
    ]);
    await expect(nodes.meet()).rejects.toMatchObject(failure);
  });

  test("is one that comes late with other options, and the group goes on", async () => {
    const { nodes, join } = await setUp();
    const ports = [await join(2), await join(3), await join(4), await join(5)];
    await expect(join(3, { version: "2" })).rejects.toThrow("version is 1 on node 0, 2 on node 1");
    await nodes.meet();
    expect(ports.map(({ isOver }) => isOver)).toEqual([false, false, false, false]);
  });

  test.each([0, 1, 6, -1])("is replica %d, which no other node has", async (replica) => {
    const { join } = await setUp();
    await expect(join(replica)).rejects.toThrow(`Cannot join with replica ${replica}: it is no`);
  });

  test.each([
    undefined,
    "!!!",
    headerOf({ replica: 2 }),
    headerOf({ replica: 2.5, facts: FACTS }),
    headerOf({ replica: 2, facts: [] }),
    headerOf(null),
  ])("is a stranger who says %s", async (header) => {
    const { address } = await setUp();
    const answer = await upgrade(address, header);
    expect(answer).toMatch(/^HTTP\/1\.1 409 /);
    expect(answer).toContain("what came was not said by a launcher");
  });

  test("is every other request", async () => {
    const { address } = await setUp();
    expect((await fetch(`http://127.0.0.1:${address.port}/health`)).status).toBe(404);
  });

  test("is what no launcher says, of one that was taken", async () => {
    const { address, nodes } = await setUp();
    const header = headerOf({ replica: 2, facts: FACTS });
    const socket = new WebSocket(`ws://127.0.0.1:${address.port}`, {
      headers: { [JOIN_HEADER]: header },
    });
    ends.push(() => socket.terminate());
    socket.on("open", () => socket.send("no plain data"));
    const near = await nodes.connection(2, never);
    expect(await near.left).toBe("what it says is not said by a launcher");
  });
});

test("nodes that do not come in time are named, and so is node 0", async () => {
  const { address, nodes, join } = await setUp({ timeout: 1 });
  await join(3);
  await expect(nodes.meet()).rejects.toMatchObject({
    exitCode: EXIT.timeout,
    message: "Cannot start without nodes 1, 2: not there after 0.001 s",
  });
  const port = await freePort();
  const options = { address: { ...address, port }, facts: FACTS, timeout: 0, signal: never };
  await expect(joinNode0(2, options)).rejects.toMatchObject({
    exitCode: EXIT.timeout,
    message: expect.stringMatching(/^Cannot start without node 0: it is not at 127.*ECONNREFUSED/),
  });
});

test("a wait that is given up ends with the reason", async () => {
  const { nodes } = await setUp();
  const waiting = new AbortController();
  const connection = nodes.connection(2, waiting.signal);
  waiting.abort(new Error("no more"));
  await expect(connection).rejects.toThrow("no more");
});

test("one that says nothing any more counts as gone", async () => {
  const { address, nodes } = await setUp({ beat: 20 });
  expect(await upgrade(address, headerOf({ replica: 2, facts: FACTS }))).toMatch(
    /^HTTP\/1\.1 101 /,
  );
  const near = await nodes.connection(2, never);
  expect(await near.left).toBe("it has given no sign of life for 0.06 s");
});

test("an address that cannot be used is named", async () => {
  const { address } = await setUp();
  const sizes = { nodes: 2, replicasPerNode: 1, facts: FACTS, timeout: LONG };
  await expect(ReplicaNodes.listen({ address, ...sizes })).rejects.toMatchObject({
    exitCode: EXIT.failed,
    message: expect.stringContaining("another program has the port"),
  });
});
