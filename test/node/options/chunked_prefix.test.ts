import { existsSync } from "node:fs";
import { afterEach, expect, test, vi } from "vitest";
import { runCommand } from "../../../src/node/command.ts";
import { chunkedPrefixThreshold } from "../../../src/node/options/engine_variables.ts";
import { OptionError, parseOptions } from "../../../src/node/options/option_parser.ts";
import { LAUNCH_OPTIONS } from "../../../src/node/options/options.ts";
import { defaultModelPath } from "../../../src/node/package_root.ts";
import { startEngine } from "../../../src/node/serve/start_engine.ts";

const NAME = "SVC_CHUNKED_PREFIX_CACHE_THRESHOLD";

test.each([
  [undefined, undefined],
  ["", undefined],
  ["0", 0],
  ["8192", 8192],
  [" 100 ", 100],
])("SVC_CHUNKED_PREFIX_CACHE_THRESHOLD %j is %j tokens", (value, tokens) => {
  expect(chunkedPrefixThreshold({ [NAME]: value })).toBe(tokens);
});

test.each(["-1", "8k", "1.5", "1e3", "0x10", "many", "99999999999999999999"])(
  "SVC_CHUNKED_PREFIX_CACHE_THRESHOLD %s is refused and named",
  (value) => {
    const read = () => chunkedPrefixThreshold({ [NAME]: value });
    expect(read).toThrow(OptionError);
    expect(read).toThrow(`Cannot use ${NAME} ${value}: it must be a whole number of tokens`);
  },
);

test("--disable-chunked-prefix-cache is off unless it is given", () => {
  const launch = (...args: string[]) => parseOptions(LAUNCH_OPTIONS, args).values;
  expect(launch().disableChunkedPrefixCache).toBe(false);
  expect(launch("--disable-chunked-prefix-cache").disableChunkedPrefixCache).toBe(true);
  expect(() => launch("--disable-chunked-prefix-cache=1")).toThrow("it takes no value");
});

afterEach(() => {
  vi.unstubAllEnvs();
});

test.skipIf(!existsSync(defaultModelPath()))(
  "a start with a variable that is no number ends before a device is opened",
  async () => {
    vi.stubEnv(NAME, "8k");
    let stderr = "";
    const code = await runCommand(["launch_server", "--port", "0"], {
      startEngine,
      stdout: { write: () => {} },
      stderr: { write: (text: string) => (stderr += text) },
    });
    expect(code).not.toBe(0);
    expect(stderr).toContain(
      `Cannot use ${NAME} 8k: it must be a whole number of tokens, 0 or more`,
    );
  },
);
