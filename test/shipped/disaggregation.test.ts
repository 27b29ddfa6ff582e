/** Installed prefill and decode servers behind an installed router, of which some are killed and frozen. */
import { afterAll, expect, test } from "vitest";
import { lackOfUcx } from "../support/ucx.ts";
import { until } from "../support/until.ts";
import { type ServingWisp, serveWisp, stopAll } from "./support/wisp.ts";

afterAll(stopAll);

const SHARED = ["--disaggregation-heartbeat-interval", "0.3"];
const KEY = ["--disaggregation-key", "of the group"];
const greedy = { temperature: 0, ignore_eos: true };

/**
 * @param backend By which pages go.
 * @param args What it is beside that otherwise than the decode server.
 */
async function prefillServer(
  backend: string,
  args: readonly string[],
): Promise<{ server: ServingWisp; port: string }> {
  const server = await serveWisp([
    ...[...SHARED, ...KEY, "--disaggregation-mode", "prefill", ...args],
    ...["--disaggregation-bootstrap-port", "0", "--disaggregation-transfer-backend", backend],
  ]);
  const port = /decode servers are met at [^\s]*:(\d+)/.exec(server.output())![1]!;
  return { server, port };
}

async function tokensOf(server: ServingWisp, text: string, length = 8) {
  const sampling_params = { ...greedy, max_new_tokens: length };
  const answer = await server.post("/generate", { text, sampling_params });
  const body = (await answer.json()) as { output_ids?: unknown; error?: { message?: string } };
  return { status: answer.status, ids: body.output_ids, message: body.error?.message };
}

/** Rooms of a server, and tokens of its cache that are in use. */
async function heldBy(server: ServingWisp): Promise<readonly unknown[]> {
  const info = (await (await server.get("/get_server_info")).json()) as {
    readonly disaggregation: { readonly rooms: number; readonly frames?: number };
    readonly internal_states: readonly { readonly num_used_tokens: number }[];
  };
  const { rooms, frames = 0 } = info.disaggregation;
  const used = info.internal_states.reduce((sum, state) => sum + state.num_used_tokens, 0);
  return [rooms, frames, used];
}

test("a router of pairs answers like one server, and its clients are told when servers are lost", async () => {
  const [first, second, one] = await Promise.all([
    prefillServer("auto", ["--page-size", "16"]),
    prefillServer("websocket", ["--tp-size", "2", "--dp-size", "2", "--enable-dp-attention"]),
    serveWisp(["--page-size", "4"]),
  ]);
  const hosts = [first.port, second.port].map((port) => `127.0.0.1:${port}`);
  const decode = await serveWisp([
    ...[...SHARED, ...KEY, "--disaggregation-mode", "decode", "--num-reserved-decode-tokens", "64"],
    ...["--page-size", "4"],
    ...["--disaggregation-prefill-hosts", ...hosts, "--disaggregation-waiting-timeout", "60"],
    ...["--disaggregation-bootstrap-timeout", "20"],
  ]);
  const router = await serveWisp(
    [
      ...["--pd-disaggregation", "--policy", "round_robin", "--prometheus-port", "0"],
      ...["--prefill", first.server.url, first.port, "--prefill", second.server.url, second.port],
      ...["--decode", decode.url, "--prefill-policy", "round_robin", "--decode-policy", "random"],
      ...["--worker-startup-check-interval", "0.5"],
    ],
    { command: ["launch_router"] },
  );
  await until(async () => expect((await router.get("/readiness")).status).toBe(200));
  const info = (await (await router.get("/get_server_info")).json()) as object;
  expect(info).toMatchObject({ disaggregation_mode: "decode", num_reserved_decode_tokens: 64 });
  expect(JSON.stringify(info)).not.toContain("of the group");

  const text = "There was a river that ran through the town. ".repeat(12);
  const right = await tokensOf(one, text);
  for (let i = 0; i < 3; i++) expect(await tokensOf(router, text)).toEqual(right);
  const way = lackOfUcx() === undefined ? "ucx" : "websocket";
  expect(first.server.output()).toContain(`A decode server has connected, pages go by ${way}`);
  expect(second.server.output()).toContain("A decode server has connected, pages go by websocket");

  // A server that is killed is one of two: its requests are sent to the other.
  const long = "It was late, and no one came. ".repeat(20);
  const asked = [1, 2, 3, 4].map((i) => tokensOf(router, `${i} ${long}`));
  first.server.process.kill("SIGKILL");
  const answers = await Promise.all(asked);
  for (const [i, answer] of answers.entries()) {
    expect(answer).toEqual(await tokensOf(one, `${i + 1} ${long}`));
  }
  expect(await tokensOf(router, text)).toEqual(right);
  await until(async () => expect(await heldBy(decode)).toEqual([0, 0, 0]));

  // One that is frozen gives no sign of life.
  second.server.process.kill("SIGSTOP");
  const began = performance.now();
  const frozen = await tokensOf(decode, text).catch(() => undefined);
  expect(frozen?.status).toBe(400);
  const lost = await decode.post("/generate", {
    text: `again ${text}`,
    sampling_params: greedy,
    bootstrap_host: "127.0.0.1",
    bootstrap_port: Number(second.port),
    bootstrap_room: 12,
  });
  expect(lost.status).toBe(500);
  expect(lost.headers.get("x-wisp-failed-side")).toBe("prefill");
  expect(await lost.text()).toContain("Cannot go on with room 12: ");
  expect(performance.now() - began).toBeLessThan(15_000);
  expect(await heldBy(decode)).toEqual([0, 0, 0]);
  second.server.process.kill("SIGCONT");
  await until(async () => expect(await tokensOf(router, text)).toEqual(right));

  const stream = await router.post("/generate", {
    text: long,
    sampling_params: { ...greedy, max_new_tokens: null },
    stream: true,
  });
  const reader = stream.body!.getReader();
  expect((await reader.read()).done).toBe(false);
  decode.process.kill("SIGKILL");
  let told = "";
  for (;;) {
    const { done, value } = await reader.read().catch(() => ({ done: true, value: undefined }));
    if (done) break;
    told += new TextDecoder().decode(value);
  }
  // Broken off within an event, or told by one.
  if (told.endsWith("data: [DONE]\n\n")) expect(told).toContain('"code":502');
  const gone = await tokensOf(router, text);
  expect([502, 503]).toContain(gone.status);
  await until(async () => expect(await heldBy(second.server)).toEqual([0, 0, 0]));
  expect((await router.stop()).code).toBe(0);
  expect((await second.server.stop()).code).toBe(0);
});
