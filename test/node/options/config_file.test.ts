import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { readOptions } from "../../../src/node/options/config_file.ts";
import { OptionError } from "../../../src/node/options/option_parser.ts";
import { LAUNCH_OPTIONS } from "../../../src/node/options/options.ts";

const folder = mkdtempSync(join(tmpdir(), "wisp-config-"));
const path = join(folder, "wisp.json");

afterAll(() => rmSync(folder, { recursive: true }));

/** The options with a file of that content. */
async function configured(content: unknown, ...args: readonly string[]) {
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return (await readOptions(LAUNCH_OPTIONS, ["--config", path, ...args])).values;
}

describe("readOptions()", () => {
  test("takes values of every kind from the file, by any of their names", async () => {
    const values = await configured({
      model: "dir",
      port: 8000,
      "mem-fraction-static": 0.5,
      "device-memory": "8G",
      "retraction-memory": 1024,
      "cuda-graph-bs": [1, 4],
      "schedule-policy": "lpm",
      "enable-metrics": true,
      "log-requests": false,
      "preferred-sampling-params": { temperature: 0.5 },
    });
    expect(values).toMatchObject({
      modelPath: "dir",
      port: 8000,
      memFractionStatic: 0.5,
      deviceMemory: 8 * 2 ** 30,
      retractionMemory: 1024,
      decodeBuckets: [1, 4],
      schedulePolicy: "lpm",
      enableMetrics: true,
      logRequests: false,
      preferredSamplingParams: { temperature: 0.5 },
    });
  });

  test("what neither has keeps its default", async () => {
    expect((await configured({ port: 1 })).host).toBe("127.0.0.1");
  });

  test("the command line wins, even with the default's value", async () => {
    const values = await configured({ port: 1, host: "0.0.0.0" }, "--port", "30000");
    expect(values).toMatchObject({ port: 30000, host: "0.0.0.0" });
  });

  test("what asks for nothing that is missing is accepted", async () => {
    const content = { tp: 1, "enable-dp-attention": false, "disaggregation-mode": "null" };
    expect(await configured(content)).toMatchObject({ tpSize: 1 });
  });

  test.each([
    [{ prot: 1 }, `Cannot use ${path}: "prot" is no option (did you mean "port"?)`],
    [{ frobnicate: 1 }, `Cannot use ${path}: "frobnicate" is no option`],
    [{ device: "cuda" }, `"device" is no option: use --adapter, which takes auto, gpu,`],
    [{ "--port": 1 }, `"--port" is no option`],
    [{ mod: "dir" }, `"mod" is no option`],
    [{ port: "8000" }, `"port" must be a whole number from 0 to 65535, got "8000"`],
    [{ port: 65536 }, `"port" must be a whole number from 0 to 65535, got 65536`],
    [{ port: null }, `"port" must be a whole number from 0 to 65535, got null`],
    [{ host: 1 }, `"host" must be a text that is not empty, got 1`],
    [{ adapter: "cuda" }, `"adapter" must be auto, gpu, lavapipe or swiftshader, got "cuda"`],
    [{ "enable-metrics": "yes" }, `"enable-metrics" must be true or false, got "yes"`],
    [{ "cuda-graph-bs": 4 }, `"cuda-graph-bs" must be a list, got 4`],
    [{ "cuda-graph-bs": [1, 0] }, `"cuda-graph-bs" must be a whole number, 1 or more, got 0`],
    [{ "device-memory": "lots" }, `"device-memory" must be a whole number of bytes`],
    [{ "preferred-sampling-params": "{}" }, `must be a JSON object, got "{}"`],
    [{ model: "a", "model-path": "b" }, `"model-path" is given twice, by two of its names`],
    [{ config: "x" }, `"config" can only be given on the command line`],
    [{ help: true }, `"help" can only be given on the command line`],
    [[], `Cannot use ${path}: it must be a JSON object`],
    ["{port: 1}", `Cannot use ${path}: `],
  ])("refuses %j", async (content, message) => {
    const reading = configured(content);
    await expect(reading).rejects.toBeInstanceOf(OptionError);
    await expect(reading).rejects.toThrow(message);
  });

  test("says when there is no such file", async () => {
    const reading = readOptions(LAUNCH_OPTIONS, ["--config", "nowhere.json"]);
    await expect(reading).rejects.toThrow("Cannot use nowhere.json: there is no such file");
  });

  test("--help needs no file", async () => {
    const { values } = await readOptions(LAUNCH_OPTIONS, ["--config", "nowhere.json", "--help"]);
    expect(values.help).toBe(true);
  });
});
