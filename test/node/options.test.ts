import { describe, expect, test } from "vitest";
import { formatOptions, OptionError, parseOptions } from "../../src/node/option_parser.ts";
import { GENERATE_OPTIONS, LAUNCH_OPTIONS } from "../../src/node/options.ts";

const launch = (...args: string[]) => parseOptions(LAUNCH_OPTIONS, args).values;

/** The message of the refusal. */
function refusal(...args: string[]): string {
  try {
    launch(...args);
  } catch (error) {
    expect(error).toBeInstanceOf(OptionError);
    return (error as Error).message;
  }
  throw new Error(`Cannot find a refusal of ${args.join(" ")}: it was accepted`);
}

describe("parseOptions", () => {
  test("fills in the defaults", () => {
    const values = launch();
    expect(values.host).toBe("127.0.0.1");
    expect(values.port).toBe(30000);
    expect(values.modelPath).toBeUndefined();
    expect(values.disableActivationQuantization).toBe(false);
  });

  test("takes a value behind a space and behind an equals sign, the last one wins", () => {
    expect(launch("--port", "1", "--port=2").port).toBe(2);
    expect(launch("--chat-template=a=b.jinja").chatTemplate).toBe("a=b.jinja");
  });

  test.each(["--model-path", "--model", "--mod", "--model-p"])("%s names the model", (flag) => {
    expect(launch(flag, "dir").modelPath).toBe("dir");
  });

  test.each([
    ["--tp", "1"],
    ["--tp-size", "1"],
    ["--tensor-parallel-size", "1"],
    ["--dp", "1"],
    ["--nnodes", "1"],
    ["--node-rank", "0"],
    ["--kv-cache-dtype", "auto"],
    ["--disaggregation-mode", "null"],
    ["--ep-num-redundant-experts", "0"],
  ])("%s %s asks for nothing new and is accepted", (flag, value) => {
    expect(() => launch(flag, value)).not.toThrow();
  });

  test.each(["--disable-radix-cache", "--disable-cuda-graph", "--trust-remote-code"])(
    "%s asks for nothing new and is accepted",
    (flag) => {
      expect(() => launch(flag)).not.toThrow();
    },
  );

  test.each([
    [["--tp", "8"], "Cannot use option --tp-size 8: it is not supported yet"],
    [["--enable-dp-attention"], "Cannot use option --enable-dp-attention: it is not supported yet"],
    [
      ["--cuda-graph-bs", "1", "0"],
      "option --cuda-graph-bs 0: it must be a whole number, 1 or more",
    ],
    [["--disaggregation-mode=prefill"], "--disaggregation-mode prefill: it is not supported yet"],
    [["--tool-call-parser", "glm45"], "it must be deepseekv3, deepseekv31, qwen25, hermes, llama3"],
    [["--reasoning-parser", "r1"], "it must be deepseek-r1, deepseek-v3, qwen3, qwen3-thinking or"],
    [["--prot", "1"], "option --prot: there is no such option (did you mean --port?)"],
    [["--frobnicate"], "Cannot use option --frobnicate: there is no such option"],
    [["--di"], "Cannot use option --di: it may mean --disable-activation-quantization,"],
    [["--port"], "Cannot use option --port: it needs a value"],
    [["--port", "--host", "h"], "Cannot use option --port: it needs a value"],
    [["--port", "x"], "option --port x: it must be a whole number from 0 to 65535"],
    [["--port", "1.5"], "it must be a whole number from 0 to 65535"],
    [["--port", "65536"], "it must be a whole number from 0 to 65535"],
    [["--page-size", "0"], "it must be a whole number from 1 to 256"],
    [["--mem-fraction-static", "1.5"], "it must be a number from 0.01 to 1"],
    [["--adapter", "cuda"], "it must be auto, gpu, lavapipe or swiftshader"],
    [["--model-path="], "it must be a text that is not empty"],
    [["--disable-activation-quantization=no"], "it takes no value"],
    [["--device-memory", "lots"], "it must be a whole number of bytes, as 8G or 512M, 1 or more"],
  ])("refuses %j", (args, message) => {
    expect(refusal(...args)).toContain(message);
  });

  test.each([
    ["1024", 1024],
    ["8G", 8 * 2 ** 30],
    ["1.5GiB", 1.5 * 2 ** 30],
    ["512m", 512 * 2 ** 20],
  ])("--device-memory %s is %i bytes", (text, bytes) => {
    expect(launch("--device-memory", text).deviceMemory).toBe(bytes);
  });

  test("takes an object as JSON", () => {
    const values = launch("--preferred-sampling-params", '{"temperature": 0.5}');
    expect(values.preferredSamplingParams).toEqual({ temperature: 0.5 });
    for (const word of ["{", "[1]", "null", "1", '"text"']) {
      expect(refusal("--preferred-sampling-params", word)).toContain("it must be a JSON object");
    }
  });

  test("takes negative numbers as values", () => {
    expect(launch("--chunked-prefill-size", "-1").chunkedPrefillSize).toBe(-1);
  });

  test("keeps what is no option, and everything behind --", () => {
    const args = ["Hello", "--temperature", "0", "--", "--raw"];
    const { values, positionals } = parseOptions(GENERATE_OPTIONS, args);
    expect(positionals).toEqual(["Hello", "--raw"]);
    expect(values.temperature).toBe(0);
    expect(values.raw).toBe(false);
  });
});

test("option tables have no flag twice", () => {
  const flags = Object.values(LAUNCH_OPTIONS).flatMap((row) => row.flags);
  expect(new Set(flags).size).toBe(flags.length);
});

test("formatOptions names every flag and keeps to 100 columns", () => {
  const help = formatOptions(LAUNCH_OPTIONS);
  for (const row of Object.values(LAUNCH_OPTIONS)) {
    for (const flag of row.flags) expect(help).toContain(flag);
  }
  for (const line of help.split("\n")) expect(line.length).toBeLessThanOrEqual(100);
  expect(help).toContain("(default: 30000)");
});
