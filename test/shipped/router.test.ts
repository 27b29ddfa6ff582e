/** The installed program routes to installed servers, one of which is killed. */
import { afterAll, expect, test } from "vitest";
import { RESERVED_ROUTER_OPTIONS } from "../../src/node/route/reserved_router_options.ts";
import { serveWisp, stopAll, wisp } from "./support/wisp.ts";

afterAll(stopAll);

test("launch_router answers like its servers, and goes on when one is killed", async () => {
  const servers = await Promise.all([serveWisp([]), serveWisp([])]);
  const urls = servers.map(({ url }) => url);
  const policy = ["--policy", "round_robin", "--prometheus-port", "0"];
  const router = await serveWisp(["--worker-urls", ...urls, ...policy], {
    command: ["launch_router"],
  });
  await router.sees(/Ready: round_robin routes to 2 workers/);
  const sampling_params = { temperature: 0, max_new_tokens: 8 };
  const ask = async ({ post }: { post: typeof router.post }) => {
    const answer = await post("/generate", { text: "Hello", sampling_params });
    return [answer.status, ((await answer.json()) as { output_ids?: unknown }).output_ids];
  };
  const plain = await ask(servers[0]!);
  for (let i = 0; i < 2; i++) expect(await ask(router)).toEqual(plain);

  const endless = { sampling_params: { max_new_tokens: null, ignore_eos: true }, stream: true };
  const streams = await Promise.all(
    [1, 2].map(() => router.post("/generate", { text: "Hello", ...endless })),
  );
  const readers = streams.map(({ body }) => body!.getReader());
  for (const reader of readers) expect((await reader.read()).done).toBe(false);
  servers[1]!.process.kill("SIGKILL");
  let text = "";
  for (;;) {
    const { done, value } = await readers[1]!
      .read()
      .catch(() => ({ done: true, value: undefined }));
    if (done) break;
    text += new TextDecoder().decode(value);
  }
  // Broken off within an event, or told by one.
  if (text.endsWith("data: [DONE]\n\n")) expect(text).toContain('"code":502');
  expect((await readers[0]!.read()).done).toBe(false);
  await readers[0]!.cancel();
  for (let i = 0; i < 4; i++) expect(await ask(router)).toEqual(plain);
  const metrics = /Metrics at (\S+)/.exec(router.output())![1]!;
  expect(await (await fetch(metrics)).text()).toContain(
    `wisp_router_cb_outcomes_total{worker="${urls[1]}",outcome="failure"}`,
  );
  expect((await router.stop()).code).toBe(0);
  await servers[0]!.stop();
});

test("--dp-aware sends requests to the replicas of a server in turns", async () => {
  const server = await serveWisp(["--dp-size", "2", "--load-balance-method", "cache_aware"]);
  const policy = ["--policy", "round_robin", "--prometheus-port", "0", "--dp-aware"];
  const router = await serveWisp(["--worker-urls", server.url, ...policy], {
    command: ["launch_router"],
  });
  await router.sees(/Ready: round_robin routes to 1 workers/);
  const sampling_params = { temperature: 0, max_new_tokens: 4 };
  const ask = async (body: object) => {
    const answer = await router.post("/generate", { text: "Hello", sampling_params, ...body });
    const { output_ids, meta_info } = (await answer.json()) as {
      readonly output_ids: readonly number[];
      readonly meta_info: { readonly dp_rank: number };
    };
    return { output_ids, rank: meta_info.dp_rank };
  };
  const answers = [await ask({}), await ask({}), await ask({}), await ask({})];
  const [first, second] = answers.map(({ rank }) => rank);
  expect([first, second].sort()).toEqual([0, 1]);
  expect(answers.map(({ rank }) => rank)).toEqual([first, second, first, second]);
  for (const { output_ids } of answers) expect(output_ids).toEqual(answers[0]!.output_ids);
  expect((await ask({ data_parallel_rank: 1 })).rank).toBe(1);
  const list = await (await fetch(`${router.url}/list_workers`)).json();
  expect(list).toMatchObject({ urls: [`${server.url}@0`, `${server.url}@1`] });
  await router.stop();
  await server.stop();
});

test("options whose capability is missing are refused and named", async () => {
  const { flags } = RESERVED_ROUTER_OPTIONS.miniLb;
  const { code, stdout, stderr } = await wisp(["launch_router", flags[0]]);
  expect([code, stdout]).toEqual([2, ""]);
  expect(stderr).toBe(`Cannot use option ${flags[0]}: it is not supported yet\n`);
});
