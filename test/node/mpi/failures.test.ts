/**
 * Processes of a group that are killed, frozen or started wrongly, in every state: the launcher says
 * which, with an exit code, and leaves no process behind.
 */
import { createServer } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import {
  freePort,
  isAlive,
  LauncherProcess,
  lackOfMpi,
  Programs,
  type StartOptions,
  tellLack,
} from "../../support/mpi/processes.ts";
import { until } from "../../support/until.ts";

const lack = lackOfMpi();
tellLack(lack);

let programs: Programs;
beforeAll(async () => {
  if (lack === undefined) programs = await Programs.build();
});
afterAll(() => programs?.remove());

const started: LauncherProcess[] = [];
afterEach(() => {
  for (const launcher of started.splice(0)) {
    launcher.kill("SIGCONT");
    launcher.kill();
  }
});

function launch(options: StartOptions): LauncherProcess {
  const launcher = new LauncherProcess(programs, options);
  started.push(launcher);
  return launcher;
}

/** Two nodes on this machine. */
async function launchNodes(options: StartOptions): Promise<readonly LauncherProcess[]> {
  const address = { host: "127.0.0.1", port: await freePort() };
  return [0, 1].map((node) => launch({ ranksPerNode: 1, ...options, nodes: 2, node, address }));
}

async function pidsOf(launcher: LauncherProcess, ranks: readonly number[]): Promise<number[]> {
  return Promise.all(ranks.map((rank) => launcher.pidOf(rank)));
}

const allGone = (pids: readonly number[]) => until(() => expect(pids.filter(isAlive)).toEqual([]));

/** Milliseconds that a person bears to wait, on a machine that is busy. */
const SOON = 5000;

const STATES = ["starting", "waiting", "exchanging", "computing", "ending"] as const;
/** The line after which the ranks are in the state. */
const seen = (state: string) =>
  state === "starting" ? /^rank 1 is process \d+$/m : new RegExp(`^rank 1 is ${state}$`, "m");

/** Of a group that ends within a second where other work leaves it a core: in one of so many. */
const TRIES = 6;

/** From the end of a rank that has no memory left to the end of its launcher. */
async function secondsWithoutMemory(): Promise<number> {
  const launcher = launch({ program: "growing", flags: ["--max-old-space-size=40"] });
  const pids = await pidsOf(launcher, [0, 1]);
  await until(() => expect(isAlive(pids[1]!)).toBe(false));
  const begun = performance.now();
  expect(await launcher.ended).toEqual({ code: 3, signal: null });
  const seconds = (performance.now() - begun) / 1000;
  expect(launcher.stderr).toMatch(/^FATAL ERROR: .*heap/m);
  expect(launcher.stderr).toMatch(
    /^Cannot go on without rank 1: (SIG(ABRT|TRAP) has ended it|it has ended with code 13[34])$/m,
  );
  await allGone(pids);
  return seconds;
}

describe.skipIf(lack !== undefined)("of a group", () => {
  test.each(STATES)("a rank that is killed while %s ends all", async (program) => {
    const launcher = launch({ program });
    const pids = await pidsOf(launcher, [0, 1]);
    await launcher.says(seen(program));
    const begun = performance.now();
    process.kill(pids[1]!, "SIGKILL");
    expect(await launcher.ended).toEqual({ code: 3, signal: null });
    expect(performance.now() - begun).toBeLessThan(SOON);
    expect(launcher.stderr).toBe("Cannot go on without rank 1: SIGKILL has ended it\n");
    expect(pids.filter(isAlive)).toEqual([]);
  });

  test.each(["waiting", "exchanging"])(
    "a rank that is frozen while %s ends all at the deadline of an exchange",
    async (program) => {
      const launcher = launch({ program, argument: "400" });
      const pids = await pidsOf(launcher, [0, 1]);
      await launcher.says(seen(program));
      process.kill(pids[1]!, "SIGSTOP");
      expect(await launcher.ended).toEqual({ code: 3, signal: null });
      expect(launcher.stderr).toMatch(
        /^Cannot gather from all ranks: "\w.*" of .* bytes has waited 0\.4 s for rank 1$/m,
      );
      expect(pids.filter(isAlive)).toEqual([]);
    },
  );

  test("a rank that is frozen while starting is named when the time is over", async () => {
    // Time enough for processes to start on a machine that is busy.
    const launcher = launch({ program: "starting", timeout: 5000 });
    const pids = await pidsOf(launcher, [0, 1]);
    process.kill(pids[1]!, "SIGSTOP");
    expect(await launcher.ended).toEqual({ code: 4, signal: null });
    // MPI waits for all ranks in each of them.
    expect(launcher.stderr).toBe("Cannot start ranks 0, 1: not ready 5 s after its start\n");
    expect(pids.filter(isAlive)).toEqual([]);
  });

  test("a rank that runs out of memory ends all, which name it, within a second", async () => {
    let seconds = await secondsWithoutMemory();
    for (let tries = 1; seconds >= 1 && tries < TRIES; tries++) {
      seconds = Math.min(seconds, await secondsWithoutMemory());
    }
    expect(seconds).toBeLessThan(1);
  });

  test("a rank that cannot go on tells why", async () => {
    const launcher = launch({ program: "failing" });
    expect(await launcher.ended).toEqual({ code: 3, signal: null });
    const reason = "Cannot allocate 8 GiB: the device is full";
    const message = `Cannot go on without rank 1, which has left its group: ${reason}`;
    expect(launcher.stderr).toBe(`${message}\n`);
  });

  test.each(STATES)(
    "ranks end with a launcher that is killed while they are %s",
    async (program) => {
      const launcher = launch({ program });
      const pids = await pidsOf(launcher, [0, 1]);
      await launcher.says(seen(program));
      // A frozen rank is not spared.
      if (program !== "starting") process.kill(pids[1]!, "SIGSTOP");
      launcher.kill();
      await allGone(program === "starting" ? [pids[0]!] : pids);
      if (program === "starting") process.kill(pids[1]!, "SIGKILL");
    },
  );

  test("ranks end when their launcher is frozen", async () => {
    const launcher = launch({ program: "computing", beat: 100 });
    const pids = await pidsOf(launcher, [0, 1]);
    await launcher.says(seen("computing"));
    launcher.kill("SIGSTOP");
    await allGone(pids);
  });

  test("a launcher that is told to stop ends its ranks", async () => {
    const launcher = launch({ program: "exchanging" });
    const pids = await pidsOf(launcher, [0, 1]);
    await launcher.says(seen("exchanging"));
    launcher.kill("SIGTERM");
    expect((await launcher.ended).code).toBe(1);
    expect(launcher.stderr).toContain("Cannot go on with the group: it is stopped");
    expect(pids.filter(isAlive)).toEqual([]);
  });
});

describe.skipIf(lack !== undefined)("of two nodes", () => {
  test("a rank that is killed on one ends both, which name it", async () => {
    const nodes = await launchNodes({ program: "waiting" });
    const pids = [await nodes[0]!.pidOf(0), await nodes[1]!.pidOf(1)];
    await nodes[1]!.says(seen("waiting"));
    process.kill(pids[1]!, "SIGKILL");
    for (const node of nodes) {
      expect((await node.ended).code).toBe(3);
      expect(node.stderr).toContain("Cannot go on without rank 1: SIGKILL has ended it\n");
    }
    expect(pids.filter(isAlive)).toEqual([]);
  });

  test.each([
    ["killed", 0, "SIGKILL", "its connection has ended"],
    ["killed", 1, "SIGKILL", "its connection has ended"],
    ["frozen", 0, "SIGSTOP", "it has given no sign of life for 0.6 s"],
    ["frozen", 1, "SIGSTOP", "it has given no sign of life for 0.6 s"],
  ] as const)("a launcher that is %s on node %i ends the other", async (_, lost, signal, how) => {
    const nodes = await launchNodes({ program: "exchanging", beat: 200 });
    const pids = [await nodes[0]!.pidOf(0), await nodes[1]!.pidOf(1)];
    await nodes[1]!.says(seen("exchanging"));
    nodes[lost]!.kill(signal);
    const other = nodes[1 - lost]!;
    expect((await other.ended).code).toBe(3);
    const killed = `Cannot go on without node ${lost}: ${how}`;
    const reset = `Cannot go on without node ${lost}: its connection has failed`;
    expect(other.stderr.includes(killed) || other.stderr.includes(reset)).toBe(true);
    await allGone(pids);
  });

  test("options that differ are refused on both, and the first is named", async () => {
    const address = { host: "127.0.0.1", port: await freePort() };
    const common = { program: "computing", nodes: 2, address };
    const [first, second] = [
      launch({ ...common, node: 0, facts: { model: "a", "page-size": 16, "tp-size": 2 } }),
      launch({ ...common, node: 1, facts: { model: "a", "page-size": 32, "tp-size": 4 } }),
    ];
    for (const node of [first, second]) {
      expect((await node.ended).code).toBe(1);
      expect(node.stderr).toBe(
        "Cannot start nodes with different options: page-size is 16 on node 0, 32 on node 1\n",
      );
    }
  });

  test("a wrong number of nodes is an option that differs", async () => {
    const address = { host: "127.0.0.1", port: await freePort() };
    const common = { program: "computing", address };
    const nodes = [launch({ ...common, nodes: 2 }), launch({ ...common, nodes: 3, node: 2 })];
    for (const node of nodes) {
      expect((await node.ended).code).toBe(1);
      expect(node.stderr).toContain("different options: nnodes is 2 on node 0, 3 on node 2\n");
    }
  });

  test("a second launcher of a node is refused, and the group is not disturbed", async () => {
    const nodes = await launchNodes({ program: "computing" });
    await nodes[0]!.says("started");
    const { port } = JSON.parse(nodes[0]!.process.spawnargs.at(-1)!).address;
    const address = { host: "127.0.0.1", port };
    const late = launch({ program: "computing", nodes: 2, node: 1, ranksPerNode: 1, address });
    expect((await late.ended).code).toBe(1);
    expect(late.stderr).toBe("Cannot join as node 1: another launcher has\n");
    expect(nodes.map(({ process }) => process.exitCode)).toEqual([null, null]);
  });

  test("a node that never comes is named when the time is over", async () => {
    const address = { host: "127.0.0.1", port: await freePort() };
    const common = { program: "computing", nodes: 4, address, timeout: 700 };
    const nodes = [launch({ ...common, node: 0 }), launch({ ...common, node: 2 })];
    for (const node of nodes) {
      expect((await node.ended).code).toBe(4);
      expect(node.stderr).toBe(
        "Cannot start without nodes 1, 3: not there 0.7 s after the start of node 0\n",
      );
    }
  });

  test("node 0 that never comes is named too", async () => {
    const address = { host: "127.0.0.1", port: await freePort() };
    const node = launch({ program: "computing", nodes: 2, node: 1, address, timeout: 500 });
    expect((await node.ended).code).toBe(4);
    expect(node.stderr).toBe(
      `Cannot start without node 0: it is not at 127.0.0.1:${address.port} after 0.5 s (ECONNREFUSED)\n`,
    );
  });

  test("a port in use is named", async () => {
    const server = createServer((socket) => socket.write("HTTP/1.1 400 Bad Request\r\n\r\n"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { readonly port: number };
    const address = { host: "127.0.0.1", port };
    const common = { program: "computing", nodes: 2, address };
    const [first, second] = [launch({ ...common, node: 0 }), launch({ ...common, node: 1 })];
    expect((await first.ended).code).toBe(1);
    expect(first.stderr).toBe(
      `Cannot wait for nodes at 127.0.0.1:${port}: another program has the port\n`,
    );
    expect((await second.ended).code).toBe(3);
    expect(second.stderr).toBe(
      "Cannot go on without node 0: what it says is not said by a launcher\n",
    );
    server.close();
  });
});
