/** `wisp chat` as a person has it, in a terminal, and `wisp generate` behind a shell's pipe. */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import {
  environment,
  scratch,
  serveWisp,
  shipped,
  stopAll,
  terminalProblem,
  terminalWisp,
} from "./support/wisp.ts";

afterAll(stopAll);

const SPEED =
  /\d+ tokens · [\d.]+ tokens\/s · first token after [\d.]+ s · (\d+) of \d+ prompt tokens cached/;
const DIM_SPEED = new RegExp(`\\x1b\\[2m${SPEED.source}\\x1b\\[0m`);
const PROMPT = /> \S*$/;
const CTRL_C = "\x03";
const CTRL_D = "\x04";
const UP = "\x1b[A";
/** With the cursor behind it. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: terminals are told so where the cursor goes.
const EMPTY_PROMPT = /> \x1b\[3G$/;

/** A file of a tool as the embedded model knows it. */
function toolFile(): string {
  const city = { type: "string", description: "City name" };
  const called = {
    name: "get_time",
    description: "Get the current time in a city.",
    parameters: { type: "object", properties: { city }, required: ["city"] },
  };
  const file = join(scratch("tools"), "tools.json");
  writeFileSync(file, JSON.stringify([{ type: "function", function: called }]));
  return file;
}

test("a person chats, has the result of a tool asked for, and leaves", async (context) => {
  const problem = terminalProblem();
  if (problem !== undefined) return context.skip(problem);
  const chat = terminalWisp(["chat", "--temperature", "0"]);
  await chat.type("", /ask it something; \/help tells the rest/);
  await chat.type("", PROMPT);
  await chat.type("What is the capital of Japan?\r", /The capital of Japan is Tokyo\./);
  await chat.type("", DIM_SPEED);
  await chat.type("", PROMPT);
  // The line before, by an arrow key; what was said is cached.
  await chat.type(`${UP}\r`, SPEED);
  const line = chat
    .output()
    .split("\n")
    .findLast((one) => SPEED.test(one))!;
  expect(Number(SPEED.exec(line)![1])).toBeGreaterThan(15);
  await chat.type(`/tools ${toolFile()}\r`, /Tools: get_time/);
  await chat.type("/clear\r", /A new chat/);
  await chat.type(
    "What time is it in Tokyo?\r",
    /What does get_time\(\{"city": "Tokyo"\}\) give\?/,
  );
  await chat.type('{"time": "14:05"}\r', SPEED);
  await chat.type("/retry\r", /give\?/);
  // Without a result, and so without the call.
  await chat.type(CTRL_C, EMPTY_PROMPT);
  await chat.type("/image /nowhere.png\r", /reads text only/);
  await chat.type("/nope\r", /no such command/);
  await chat.type(CTRL_D, /\n/);
  expect(await chat.ended()).toBe(0);
});

test("Ctrl-C stops an answer of a server and not the program; a refusal is told", async (context) => {
  const problem = terminalProblem();
  if (problem !== undefined) return context.skip(problem);
  const server = await serveWisp(["--api-key", "key", "--context-length", "512"]);
  // So hot that the model hardly finds an end by itself.
  const options = ["--api-key", "key", "--temperature", "9"];
  const chat = terminalWisp(["chat", "--url", server.url, ...options]);
  await chat.type("", PROMPT);
  const stopped = /stopped · \d+ tokens/;
  for (let tries = 0; tries < 5 && !stopped.test(chat.output()); tries++) {
    if (tries > 0) await chat.type("/clear\r", /A new chat/);
    await chat.type("Tell me a story.\r", /\n.{10}/);
    // What is typed meanwhile is kept for the prompt, and does not show up in the answer. An answer that
    // ended by chance before the key came is asked for again.
    await chat.type(`early${CTRL_C}`, /stopped · \d+ tokens|Ctrl-D or \/exit/);
  }
  expect(chat.output()).toMatch(stopped);
  await chat.type("", /> early/);
  await chat.type(CTRL_C, /Ctrl-D or \/exit/);
  await chat.type(`${"long ".repeat(300)}\r`, /context/);
  await chat.type("/exit\r", /\n/);
  expect(await chat.ended()).toBe(0);
  expect((await server.stop()).code).toBe(0);
});

test("a shell's pipe stands behind the prompt, and an answer that is no JSON yet is a failure", () => {
  const folder = scratch("generate");
  const schema = join(folder, "schema.json");
  writeFileSync(
    schema,
    '{"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}',
  );
  const wisp = `'${process.execPath}' '${join(shipped(), "node_modules", ".bin", "wisp")}'`;
  const run = (command: string) =>
    spawnSync("sh", ["-c", command], { cwd: folder, env: environment(), encoding: "utf8" });
  const text = "Anna is 34 years old and lives in Oslo.";
  const options = `--temperature 0 --json-schema '${schema}'`;
  const whole = run(`echo '${text}' | ${wisp} generate 'Extract age as JSON:' ${options}`);
  expect([whole.status, JSON.parse(whole.stdout)]).toEqual([
    0,
    expect.objectContaining({ age: expect.any(Number) }),
  ]);
  const cut = run(`${wisp} generate '${text}' ${options} --max-new-tokens 2 < /dev/null`);
  expect([cut.status, cut.stderr]).toEqual([
    1,
    expect.stringContaining("it is cut off at 2 tokens"),
  ]);
});
