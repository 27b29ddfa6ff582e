/** Random bodies and headers over real connections, cut at random bytes: the server goes on. */
import { expect, test } from "vitest";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { fuzzServer } from "../../support/server/fuzz_server.ts";
import { until } from "../../support/until.ts";

const CASES = process.env.WISP_TEST_FULL === "1" ? 20_000 : 400;

test(`${CASES} random messages over sockets`, async () => {
  const engine = new ScriptedEngine({ model: { thinkingVariables: ["thinking"] } });
  const statuses = await fuzzServer(engine, {
    cases: CASES,
    seed: 1000,
    known: { text: "known", sampling_params: { max_new_tokens: 12 } },
    toolCallParser: "qwen25",
    reasoningParser: "qwen3",
  });
  await until(() => expect(engine.running).toEqual([]));
  expect(statuses.get(200)).toBeGreaterThan(CASES / 20);
  expect(statuses.get(400)).toBeGreaterThan(CASES / 20);
});
