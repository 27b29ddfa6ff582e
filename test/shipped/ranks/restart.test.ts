/**
 * The installed program with `--restart`: what clients see of a group whose ranks are killed, until it
 * answers again.
 */
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort, isAlive, lackOfMpi, tellLack } from "../../support/mpi/processes.ts";
import { until } from "../../support/until.ts";
import { ranksOf } from "../support/struck_group.ts";
import { adapterName, type ServingWisp, serveWisp, stopAll } from "../support/wisp.ts";

const lack = lackOfMpi();
tellLack(lack);
const isFull = process.env.WISP_TEST_FULL === "1";

/** Two machines with a rank each. */
let first: ServingWisp;
let second: ServingWisp;
/** Where they meet. */
let address: string;

/** Starts the launchers of a new group. */
async function launchBoth(): Promise<void> {
  address = `127.0.0.1:${await freePort()}`;
  [first, second] = await Promise.all([launch(0), launch(1)]);
}

afterAll(stopAll);

/** Resolves once the group is there. */
function launch(node: 0 | 1): Promise<ServingWisp> {
  const args = [
    ...["--adapter", adapterName(), "--context-length", "256", "--max-total-tokens", "512"],
    ...["--tp-size", "2", "--nnodes", "2", "--dist-init-addr", address, "--restart"],
    ...["--node-rank", `${node}`],
  ];
  return serveWisp(args, node === 0 ? {} : { listens: /Health of node 1 at (http:\/\/\S+);/ });
}

async function answer(): Promise<readonly number[]> {
  const sampling_params = { temperature: 0, max_new_tokens: 8, ignore_eos: true };
  const response = await first.post("/generate", { text: "The sea", sampling_params });
  expect(response.status, await response.clone().text()).toBe(200);
  return ((await response.json()) as { readonly output_ids: readonly number[] }).output_ids;
}

const statusOf = async (server: ServingWisp) => (await server.get("/health")).status;

async function stateOf(server: ServingWisp): Promise<Readonly<Record<string, unknown>>> {
  const info = await (await server.get("/get_server_info")).json();
  return (info as { readonly internal_states: [Record<string, unknown>] }).internal_states[0];
}

describe.skipIf(lack !== undefined)("a group that is started again", () => {
  beforeAll(launchBoth);

  test.each([
    ["rank 1, of another machine", () => second],
    ["rank 0, which has the engine", () => first],
  ])("answers as before when %s is killed", async (_, of) => {
    const want = await answer();
    const { num_restarts: before } = await stateOf(first);
    const old = [...ranksOf(first.process.pid!), ...ranksOf(second.process.pid!)];
    const endless = { max_new_tokens: null, ignore_eos: true };
    const running = first.post("/generate", { text: "Hello", sampling_params: endless });
    await until(async () => expect((await stateOf(first)).num_running_reqs).toBe(1));
    process.kill(ranksOf(of().process.pid!)[0]!, "SIGKILL");
    const ended = await running;
    const gone = expect.stringMatching(/^\{.*"Cannot generate: .*without rank [01]: SIGKILL/);
    expect([ended.status, await ended.text()]).toEqual([503, gone]);

    expect(await statusOf(first)).toBe(503);
    expect(await stateOf(first)).toMatchObject({ healthy: false, recovering: true });
    const meanwhile = await first.post("/generate", { text: "Hello" });
    expect([meanwhile.status, await meanwhile.text()]).toEqual([
      503,
      expect.stringContaining("its ranks are being started again"),
    ]);
    await until(async () => expect(await statusOf(second)).toBe(503));

    await until(async () => expect(await statusOf(first)).toBe(200));
    await until(async () => expect(await statusOf(second)).toBe(200));
    expect(await answer()).toEqual(want);
    expect(await stateOf(first)).toMatchObject({
      ...{ healthy: true, recovering: false, num_restarts: Number(before) + 1 },
    });
    expect(old.filter(isAlive)).toEqual([]);
  });

  test("is not when a signal comes meanwhile, which ends the server with 0", async () => {
    const closed = once(second.process, "close");
    process.kill(ranksOf(second.process.pid!)[0]!, "SIGKILL");
    await until(async () => expect(await statusOf(first)).toBe(503));
    second.process.kill("SIGTERM");
    const { code } = await first.stop();
    expect(code).toBe(0);
    await closed;
    expect(first.output()).toMatch(/The group has ended \(.*rank 1.*SIGKILL.*\): its ranks are/);
  });
});

describe.skipIf(lack !== undefined || !isFull)("launchers that are killed", () => {
  beforeAll(launchBoth);

  const kill = async (server: ServingWisp) => {
    const [ranks, closed] = [ranksOf(server.process.pid!), once(server.process, "close")];
    server.process.kill("SIGKILL");
    await closed;
    return ranks;
  };

  test("leave a group that answers as before, once others are started", async () => {
    const want = await answer();
    const old = [...ranksOf(first.process.pid!), ...(await kill(second))];
    await until(async () => expect(await statusOf(first)).toBe(503));
    second = await launch(1);
    await until(async () => expect(await statusOf(first)).toBe(200));
    expect(await answer()).toEqual(want);

    old.push(...ranksOf(second.process.pid!), ...(await kill(first)));
    await until(async () => expect(await statusOf(second)).toBe(503));
    first = await launch(0);
    await until(async () => expect(await statusOf(second)).toBe(200));
    expect(await answer()).toEqual(want);
    await until(() => expect(old.filter(isAlive)).toEqual([]));

    second.process.kill("SIGTERM");
    expect((await first.stop()).code).toBe(0);
  });
});
