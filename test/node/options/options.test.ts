import { describe, expect, test } from "vitest";
import { FOREIGN_NAMES } from "../../../src/node/options/foreign_options.ts";
import {
  formatOptions,
  OptionError,
  parseOptions,
} from "../../../src/node/options/option_parser.ts";
import {
  DOWNLOAD_OPTIONS,
  GENERATE_OPTIONS,
  LAUNCH_OPTIONS,
} from "../../../src/node/options/options.ts";

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
    ["--moe-dense-tp-size", "1"],
    ["--dist-timeout", "3600"],
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
    [["--tp", "0"], "Cannot use option --tp 0: it must be a whole number, 1 or more"],
    [
      ["--moe-dense-tp-size", "2"],
      "option --moe-dense-tp-size 2: it must be a whole number from 1 to 1",
    ],
    [
      ["--cuda-graph-bs", "1", "0"],
      "option --cuda-graph-bs 0: it must be a whole number, 1 or more",
    ],
    [
      ["--disaggregation-mode=both"],
      "--disaggregation-mode both: it must be null, prefill or decode",
    ],
    [
      ["--disaggregation-transfer-backend", "nixl"],
      "--disaggregation-transfer-backend nixl: it must be auto, ucx or websocket",
    ],
    [["--tool-call-parser", "glm45"], "it must be deepseekv3, deepseekv31, qwen25, hermes, llama3"],
    [["--reasoning-parser", "r1"], "it must be deepseek-r1, deepseek-v3, qwen3, qwen3-thinking or"],
    [["--prot", "1"], "option --prot: there is no such option (did you mean --port?)"],
    [["--frobnicate"], "Cannot use option --frobnicate: there is no such option"],
    [
      ["--disable"],
      "Cannot use option --disable: it may mean --disable-web-page, --disable-activation-quantization,",
    ],
    [["--port"], "Cannot use option --port: it needs a value"],
    [["--port", "--host", "h"], "Cannot use option --port: it needs a value"],
    [["--port", "x"], "option --port x: it must be a whole number from 0 to 65535"],
    [["--port", "1.5"], "it must be a whole number from 0 to 65535"],
    [["--port", "65536"], "it must be a whole number from 0 to 65535"],
    [["--page-size", "0"], "it must be a whole number from 1 to 256"],
    [["--mem-fraction-static", "1.5"], "it must be a number from 0.01 to 1"],
    [
      ["--quantization", "bogus"],
      "it must be int4, int4-g32, int4-g64, int4-g128, int8, fp8, awq,",
    ],
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

test("the error of a shortened option names it whole, that of an alias does not", () => {
  const problem = (...args: readonly string[]) => {
    try {
      parseOptions(LAUNCH_OPTIONS, args);
    } catch (error) {
      return (error as Error).message;
    }
    return "";
  };
  expect(problem("--devi", "cuda")).toMatch(/^Cannot use option --devi \(--device-memory\) cuda: /);
  expect(problem("--model-path=")).toMatch(/^Cannot use option --model-path /);
  expect(problem("--model=")).toMatch(/^Cannot use option --model /);
});

describe("names of other servers' options", () => {
  const flags = Object.values(LAUNCH_OPTIONS).flatMap((row) => row.flags);

  test("none is an option here, and every option that their sentences name is one", () => {
    expect(FOREIGN_NAMES.filter((name) => flags.includes(name as "--model"))).toEqual([]);
    const named = FOREIGN_NAMES.flatMap((name) =>
      refusal(name)
        .match(/--[a-z-]+/g)!
        .slice(1),
    );
    expect(named.filter((name) => !flags.includes(name as "--model"))).toEqual([]);
  });

  test.each([
    [["--device", "cuda"], "Cannot use option --device: use --adapter, which takes auto, gpu,"],
    [["--device=cuda"], "Cannot use option --device: use --adapter"],
    [["--gpu-memory-utilization", "0.9"], "use --mem-fraction-static"],
    [["--max-model-len", "4096"], "use --context-length"],
    [["--dtype", "bfloat16"], "weights stay in the type that the checkpoint has"],
    [["--context-size", "8"], "use --context-length"],
  ])("%j is refused with what to use, not taken for the beginning of another", (args, message) => {
    expect(refusal(...args)).toContain(message);
  });

  test("a command without the option in place of it does not name it", () => {
    expect(() => parseOptions(DOWNLOAD_OPTIONS, ["--device", "cuda"])).toThrow(
      /^Cannot use option --device: there is no such option$/,
    );
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
