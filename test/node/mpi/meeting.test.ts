/** Launchers that meet at the address of node 0, in one process: what they tell each other, and strangers. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { CONTROL_LIMITS } from "../../../src/node/mpi/control_channel.ts";
import { meetAsHead } from "../../../src/node/mpi/head_node.ts";
import { EXIT, LaunchError } from "../../../src/node/mpi/launch_error.ts";
import { meetAsMember } from "../../../src/node/mpi/member_node.ts";
import type { Nodes, NodesOptions } from "../../../src/node/mpi/nodes.ts";
import { freePort } from "../../support/mpi/processes.ts";
import { until } from "../../support/until.ts";

const open: Nodes[] = [];
const sockets: Socket[] = [];
afterEach(() => {
  for (const nodes of open.splice(0)) nodes.close();
  for (const socket of sockets.splice(0)) socket.destroy();
});

async function optionsOf(nodes: number): Promise<Omit<NodesOptions, "node">> {
  const address = { host: "127.0.0.1", port: await freePort() };
  return { nodes, address, facts: { version: "1", nnodes: nodes }, timeout: 60_000, beat: 1000 };
}

async function meet(options: NodesOptions): Promise<Nodes> {
  const nodes = await (options.node === 0 ? meetAsHead(options) : meetAsMember(options));
  open.push(nodes);
  return nodes;
}

async function meetAll(size: number): Promise<{ nodes: Nodes[]; port: number }> {
  const options = await optionsOf(size);
  const all = Array.from({ length: size }, (_, node) => meet({ ...options, node }));
  return { nodes: await Promise.all(all), port: options.address!.port };
}

/** A program that is no launcher, once it is connected. */
async function stranger(port: number): Promise<Socket> {
  for (;;) {
    const socket = connect({ host: "127.0.0.1", port });
    try {
      await once(socket, "connect");
      socket.on("error", () => {});
      sockets.push(socket);
      return socket;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
}

/** What it hears until it is left. */
async function heardBy(socket: Socket, says: string): Promise<string> {
  let text = "";
  socket.setEncoding("utf8").on("data", (more: string) => {
    text += more;
  });
  socket.write(says);
  if (!socket.destroyed) await once(socket, "close");
  return text;
}

describe("launchers", () => {
  test("have all what each has, at every fence, and end together", async () => {
    const { nodes } = await meetAll(3);
    for (const round of [0, 1]) {
      const fences = nodes.map((one, node) => one.fence({ [`key-${round}-${node}`]: `${node}` }));
      const all = Object.fromEntries([0, 1, 2].map((node) => [`key-${round}-${node}`, `${node}`]));
      expect(await Promise.all(fences)).toEqual([all, all, all]);
    }
    let ended = 0;
    const ends = nodes.map((one) => one.finish().then(() => (ended += 1)));
    await Promise.all(ends);
    expect(ended).toBe(3);
  });

  test("end together when one of them ends the group, and the first reason counts", async () => {
    const { nodes } = await meetAll(3);
    const heard: string[] = [];
    for (const [node, one] of nodes.entries()) {
      one.onFailure = ({ message, exitCode }) => heard.push(`${node}: ${message} (${exitCode})`);
    }
    const waiting = nodes[2]!.fence({});
    nodes[1]!.fail(new LaunchError("Cannot go on: first", EXIT.lost));
    await until(() => expect(heard).toHaveLength(3));
    nodes[0]!.fail(new LaunchError("Cannot go on: second", EXIT.failed));
    expect(heard.sort()).toEqual([0, 1, 2].map((node) => `${node}: Cannot go on: first (3)`));
    await expect(waiting).rejects.toThrow("Cannot go on: first");
  });

  test("a wait that is stopped ends", async () => {
    const stop = new AbortController();
    const options = { ...(await optionsOf(2)), signal: stop.signal };
    const [head, member] = [meet({ ...options, node: 0 }), meet({ ...options, nodes: 3, node: 2 })];
    const far = meet({
      ...options,
      node: 1,
      address: { host: "127.0.0.1", port: await freePort() },
    });
    const outcomes = Promise.allSettled([head, member, far]);
    stop.abort();
    const reasons = (await outcomes).map((one) => String((one as PromiseRejectedResult).reason));
    for (const reason of reasons) expect(reason).toMatch(/it is stopped|different options/);
  });
});

describe("strangers at the address of node 0", () => {
  test.each([
    ["speaks another protocol", "GET / HTTP/1.1\r\n\r\n", ""],
    ["says nothing of a launcher", '{"type":"hello"}\n', "what came was not said by a launcher"],
    ["names no node", '{"type":"join","facts":{}}\n', "what came was not said by a launcher"],
    ["says no facts", '{"type":"join","node":1}\n', "what came was not said by a launcher"],
    ["says a list", "[1]\n", ""],
    ["names a node that cannot be", join(7), "nodes of this group are 0 to 1"],
    ["names node 0", join(0), "nodes of this group are 0 to 1"],
  ])("one that %s is left, and the group starts", async (_, says, hears) => {
    const options = await optionsOf(2);
    const head = meet({ ...options, node: 0 });
    expect(await heardBy(await stranger(options.address!.port), says)).toContain(hears);
    await Promise.all([head, meet({ ...options, node: 1 })]);
  });

  test("one that joins and then brings nothing to a fence ends the group with the reason", async () => {
    const options = await optionsOf(2);
    const head = meet({ ...options, node: 0 });
    const socket = await stranger(options.address!.port);
    const { facts } = options;
    socket.write(`${JSON.stringify({ type: "join", node: 1, facts })}\n{"type":"fence"}\n`);
    const reason = "Cannot go on without node 1: what it says is not said by a launcher";
    const fence = head.then((nodes) => nodes.fence({}));
    await expect(fence).rejects.toThrow(reason);
  });

  test("one that never ends a line is left at the limit", async () => {
    const options = await optionsOf(2);
    const head = meet({ ...options, node: 0 });
    const socket = await stranger(options.address!.port);
    const text = await heardBy(socket, "x".repeat(CONTROL_LIMITS.firstMessage + 1));
    expect(text).toBe("");
    await Promise.all([head, meet({ ...options, node: 1 })]);
  });

  test("more of them than there is room for are left at once", async () => {
    const options = await optionsOf(2);
    const head = meet({ ...options, node: 0 });
    const { port } = options.address!;
    const silent: Socket[] = [];
    while (silent.length < CONTROL_LIMITS.strangers) silent.push(await stranger(port));
    expect(await heardBy(await stranger(port), "")).toBe("");
    expect(silent.every(({ destroyed }) => !destroyed)).toBe(true);
    // One that leaves makes room.
    silent[0]!.destroy();
    await Promise.all([head, meet({ ...options, node: 1 })]);
  });
});

function join(node: number): string {
  return `${JSON.stringify({ type: "join", node, facts: { version: "1", nnodes: 2 } })}\n`;
}
