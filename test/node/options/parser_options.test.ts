import { expect, test } from "vitest";
import { runCommand } from "../../../src/node/command.ts";
import { requireOneKindOfParsers } from "../../../src/node/options/parser_options.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { answer } from "../../support/server/http_client.ts";

test("wisp launch_server serves chats with the parsers that it is told", async () => {
  const text = 'Hm.\n</think>\n\n<tool_call>\n{"name": "now"}\n</tool_call>';
  const engine = new ScriptedEngine({
    script: ({ messages }) => (messages === undefined ? {} : { pieces: [text] }),
  });
  let url = "";
  const parsers = ["--tool-call-parser", "hermes", "--reasoning-parser", "deepseek-r1"];
  let code: Promise<number> | undefined;
  await new Promise<void>((resolve) => {
    const write = (line: string) => {
      url ||= /Listening on (\S+)/.exec(line)?.[1] ?? "";
      if (line.startsWith("Ready: ")) resolve();
    };
    code = runCommand(["launch_server", "--port", "0", ...parsers], {
      startEngine: async () => engine,
      stdout: { write },
      stderr: { write },
    });
  });
  const body = {
    messages: [{ role: "user", content: "What time is it?" }],
    tools: [{ type: "function", function: { name: "now" } }],
  };
  const headers = { "content-type": "application/json" };
  const init = { method: "POST", headers, body: JSON.stringify(body) };
  expect(await answer(await fetch(`${url}/v1/chat/completions`, init))).toMatchObject({
    choices: [
      {
        message: {
          content: null,
          reasoning_content: "Hm.\n",
          tool_calls: [{ function: { name: "now", arguments: "{}" } }],
        },
        finish_reason: "tool_calls",
      },
    ],
  });
  (process.listeners("SIGTERM").at(-1) as (name: string, number: number) => void)("SIGTERM", 15);
  expect(await code).toBe(0);
});

test("requireOneKindOfParsers refuses parsers of different kinds of models", () => {
  const refused = { toolCallParser: "deepseekv3", reasoningParser: "gpt-oss" } as const;
  expect(() => requireOneKindOfParsers(refused)).toThrow(
    "Cannot parse tool calls as deepseekv3 and reasoning as gpt-oss: gpt-oss goes with gpt-oss only",
  );
  requireOneKindOfParsers({ toolCallParser: "gpt-oss", reasoningParser: undefined });
});
