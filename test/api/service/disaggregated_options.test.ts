/**
 * Specification 4.4: a server that is neither one for prompts nor one for answers refuses and names what
 * belongs to them, and not what asks for nothing.
 */
import { describe, expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { startCommand } from "../../support/package/run_command.ts";
import { errorMessage, post } from "../../support/server/http_client.ts";

const FIELDS: readonly (readonly [string, unknown])[] = [
  ["bootstrap_host", "10.0.0.1"],
  ["bootstrap_port", 8998],
  ["bootstrap_room", 12],
  ["bootstrap_pair_key", "k"],
  ["data_parallel_rank", 1],
];

describe.each([
  ["/generate", { text: "a" }],
  ["/v1/chat/completions", { messages: [{ role: "user", content: "a" }] }],
  ["/v1/completions", { prompt: "a" }],
])("%s", (path, body) => {
  test.each(FIELDS)("refuses %s", async (name, value) => {
    const engine = new ScriptedEngine();
    const response = await post(createApp(engine), path, { ...body, [name]: value });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain(`Cannot use ${name}: `);
    expect(engine.requests).toEqual([]);
  });

  test("takes the nulls that a router may send", async () => {
    const nulls = Object.fromEntries(FIELDS.map(([name]) => [name, null]));
    const response = await post(createApp(new ScriptedEngine()), path, { ...body, ...nulls });
    expect(response.status).toBe(200);
  });
});

test("a server of a pair does not sleep", async () => {
  const args = ["--disaggregation-mode", "decode", "--sleep-idle-seconds", "5"];
  const command = startCommand(["launch_server", ...args]);
  expect(await command.code).toBe(2);
  expect(command.stderr()).toContain(
    "Cannot use option --sleep-idle-seconds together with --disaggregation-mode decode: ",
  );
  expect(command.started).toEqual([]);
});
