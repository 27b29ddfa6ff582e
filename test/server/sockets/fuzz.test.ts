/**
 * Random and mutated bodies: whatever a stranger sends, the answer is theirs to read (never a 500)
 * and nothing is left running.
 */
import { expect, test, vi } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { hostileBody, randomSource, TEMPLATES } from "../../support/server/hostile_requests.ts";
import { errorMessage, post } from "../../support/server/http_client.ts";

/** Of each kind of body; twenty times that in the long campaign. */
const CASES = process.env.WISP_TEST_FULL === "1" ? 10_000 : 500;

test.each(TEMPLATES)("%s survives random bodies", async (path, template) => {
  const reportError = vi.fn();
  const engine = new ScriptedEngine({ model: { thinkingVariables: ["thinking"] } });
  const app = createApp(engine, {
    reportError,
    maxBodyBytes: 20_000,
    toolCallParser: "qwen25",
    reasoningParser: "qwen3",
  });
  const random = randomSource(path.length + JSON.stringify(template).length);
  const statuses = new Map<number, number>();
  for (let i = 0; i < CASES; i++) {
    const body = hostileBody(template, random);
    const response = await post(app, path, body);
    statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
    expect([200, 400, 413], body).toContain(response.status);
    if (response.status === 200) await response.text();
    else expect(await errorMessage(response), body).toMatch(/../);
    expect(engine.running, body).toEqual([]);
  }
  expect(reportError).not.toHaveBeenCalled();
  // Both sides of the border were visited.
  expect(statuses.get(200)).toBeGreaterThan(CASES / 50);
  expect(statuses.get(400)).toBeGreaterThan(CASES / 10);
});
