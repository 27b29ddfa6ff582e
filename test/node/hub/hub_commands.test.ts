import { rmSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { runCommand } from "../../../src/node/command.ts";
import { downloadReport } from "../../../src/node/hub/download_progress.ts";
import { resolveModel } from "../../../src/node/hub/resolve_model.ts";
import type { EngineLaunchOptions } from "../../../src/node/options/options.ts";
import { startEngine } from "../../../src/node/serve/start_engine.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { COMMIT, type HubFixture, hubFixture, ID, SHARDS } from "../../support/server/hub_model.ts";
import type { HubServerOptions } from "../../support/server/hub_server.ts";

let fixture: HubFixture;

async function open(server: HubServerOptions = {}): Promise<void> {
  fixture = await hubFixture(server);
  for (const [name, value] of Object.entries(fixture.options.env!)) vi.stubEnv(name, value);
  for (const name of ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE"]) vi.stubEnv(name, "");
}

afterEach(async () => {
  vi.unstubAllEnvs();
  await fixture?.close();
});

/** Runs the handler that the command has put on the signal, as the signal would. */
function signal(name: "SIGTERM" | "SIGINT"): void {
  (process.listeners(name).at(-1) as (name: string, number: number) => void)(name, 15);
}

/** One run of a command whose engine is a script, but whose model is looked for. */
function run(...args: readonly string[]) {
  const started: EngineLaunchOptions[] = [];
  let stdout = "";
  let stderr = "";
  const code = runCommand(args, {
    startEngine: async (options) => {
      await resolveModel(options.modelPath!, { revision: options.revision });
      started.push(options);
      return new ScriptedEngine();
    },
    stdout: {
      write: (text: string) => {
        stdout += text;
      },
    },
    stderr: {
      write: (text: string) => {
        stderr += text;
        if (text.startsWith("Ready: ")) signal("SIGTERM");
      },
    },
  });
  return { code, started, stdout: () => stdout, stderr: () => stderr };
}

describe("wisp download", () => {
  test("prints the folder, and how it goes to the standard error", async () => {
    await open();
    const command = run("download", ID, "--revision", COMMIT);
    expect(await command.code).toBe(0);
    expect(command.stdout()).toBe(`${fixture.path("snapshots", COMMIT)}\n`);
    expect(command.stderr()).toContain(`Downloading ${ID}: 0.5 of 0.5 MB (100%)\n`);
  });

  test("--endpoint wins over the variable", async () => {
    await open();
    vi.stubEnv("HF_ENDPOINT", "http://127.0.0.1:9");
    expect(await run("download", ID, "--endpoint", `${fixture.hub.url}/`).code).toBe(0);
  });

  test("a failure is one sentence with the file, and ends with 1", async () => {
    await open({
      change: (hit, reply) => (hit.name === SHARDS[1] ? { ...reply, status: 403 } : reply),
    });
    const command = run("download", ID);
    expect(await command.code).toBe(1);
    expect(command.stderr()).toContain(`\nCannot download ${SHARDS[1]} of ${ID}: `);
    expect(command.stdout()).toBe("");
  });

  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("%s ends it with %i, and the next one goes on", async (name, code) => {
    let isSlow = true;
    await open({
      change: (hit, reply) => {
        if (hit.kind !== "store" || !isSlow) return reply;
        setTimeout(() => signal(name), 100);
        isSlow = false;
        return { ...reply, stallAfter: 1000 };
      },
    });
    const listeners = process.listenerCount(name);
    const command = run("download", ID);
    expect(await command.code).toBe(code);
    expect(command.stderr()).toContain(`Cannot download ${ID}: a signal came`);
    expect(process.listenerCount(name)).toBe(listeners);
    expect(await run("download", ID).code).toBe(0);
  });

  test.each([
    [[], "the id of a model is missing"],
    [["a/b", "c/d"], 'Cannot use argument "c/d"'],
    [["a/b", "--endpoint", "nowhere"], "option --endpoint nowhere: it must be an address"],
    [["a/b", "--revision", ".."], "option --revision ..: it is no branch"],
  ])("%j ends with 2", async (args, message) => {
    await open();
    const command = run("download", ...args);
    expect(await command.code).toBe(2);
    expect(command.stderr()).toContain(message);
  });

  test.each([
    ["download", "--endpoint URL"],
    ["serve", "--offline"],
  ])("%s --help prints its options", async (name, option) => {
    await open();
    const command = run(name, "--help");
    expect(await command.code).toBe(0);
    expect(command.stdout()).toContain(option);
    for (const line of command.stdout().split("\n")) expect(line.length).toBeLessThanOrEqual(103);
  });
});

describe("wisp serve", () => {
  test("downloads the model when it is not here, then serves it", async () => {
    await open();
    const command = run("serve", ID, "--port", "0", "--context-length", "64");
    expect(await command.code).toBe(0);
    expect(command.started).toMatchObject([{ modelPath: ID, contextLength: 64 }]);
    const before = fixture.hub.hits.length;
    expect(await run("serve", "--model", ID, "--port", "0").code).toBe(0);
    expect(fixture.hub.hits).toHaveLength(before);
  });

  test("downloads the model that drafts too, and nothing for n-grams", async () => {
    await open();
    const draft = ["--speculative-draft-model-path", ID, "--port", "0"];
    const ngrams = run("serve", EMBEDDED_MODEL, "--speculative-algorithm", "NGRAM", ...draft);
    expect(await ngrams.code).toBe(0);
    expect(fixture.hub.hits).toEqual([]);
    const command = run("serve", EMBEDDED_MODEL, "--speculative-algorithm", "STANDALONE", ...draft);
    expect(await command.code).toBe(0);
    expect((await resolveModel(ID)).commit).toBe(COMMIT);
  });

  test("goes on with an incomplete download", async () => {
    await open();
    expect(await run("download", ID).code).toBe(0);
    rmSync(fixture.path("snapshots", COMMIT, SHARDS[0]));
    expect(await run("serve", ID, "--port", "0").code).toBe(0);
  });

  test.each(["--offline", "HF_HUB_OFFLINE"])("%s downloads nothing", async (how) => {
    await open();
    if (how === "HF_HUB_OFFLINE") vi.stubEnv(how, "1");
    const command = run("serve", ID, "--port", "0", ...(how === "--offline" ? [how] : []));
    expect(await command.code).toBe(1);
    expect(command.stderr()).toContain(`"wisp download ${ID}" fetches it`);
    expect(fixture.hub.hits).toEqual([]);
  });

  test.each([
    [[], 2, "the id or folder of a model is missing; wisp launch_server serves"],
    [["a/b", "--model", "c/d"], 2, 'Cannot use argument "c/d": one model is expected'],
    [["./nowhere"], 1, "Cannot load ./nowhere: there is no such folder on this machine"],
  ])("%j ends with %i", async (args, code, message) => {
    await open();
    const command = run("serve", ...args);
    expect(await command.code).toBe(code);
    expect(command.stderr()).toContain(message);
    expect(fixture.hub.hits).toEqual([]);
  });
});

test("wisp launch_server downloads nothing and says what does", async () => {
  await open();
  const command = run("launch_server", "--model", ID, "--port", "0");
  expect(await command.code).toBe(1);
  expect(command.stderr()).toContain(`"wisp download ${ID}" fetches it`);
  expect(fixture.hub.hits).toEqual([]);
});

describe("downloadReport", () => {
  let time = 0;
  let written = "";
  const output = (isTTY: boolean) => ({
    isTTY,
    write: (text: string) => {
      written += text;
    },
  });

  beforeEach(() => {
    time = 0;
    written = "";
  });

  test("a line every five seconds where there is no terminal, with rate and time left", () => {
    const report = downloadReport("a/b", output(false), { now: () => time });
    for (time = 0; time <= 20_000; time += 1000) report.progress(time * 2000, 100e6);
    report.note("Trying again");
    time += 100;
    report.progress(100e6, 100e6);
    expect(written.split("\n")).toEqual([
      "Downloading a/b: 0.0 of 100 MB (0%)",
      "Downloading a/b: 10.0 of 100 MB (10%), 2.0 MB/s, 45 s left",
      "Downloading a/b: 20.0 of 100 MB (20%), 2.0 MB/s, 40 s left",
      "Downloading a/b: 30.0 of 100 MB (30%), 2.0 MB/s, 35 s left",
      "Downloading a/b: 40.0 of 100 MB (40%), 2.0 MB/s, 30 s left",
      "Trying again",
      "Downloading a/b: 100 of 100 MB (100%)",
      "",
    ]);
  });

  test("one line that changes on a terminal", () => {
    const report = downloadReport("a/b", output(true), { now: () => time });
    report.progress(0, 7200e6);
    time = 1000;
    report.progress(1e6, 7200e6);
    time = 1100;
    report.progress(1.1e6, 7200e6);
    report.note("Trying again");
    time = 2000;
    report.progress(7200e6, 7200e6);
    expect(written.split("\r\x1b[K").slice(1)).toEqual([
      "Downloading a/b: 0.0 of 7200 MB (0%)",
      "Downloading a/b: 1.0 of 7200 MB (0%), 1.0 MB/s, 2 h 0 min left",
      "Trying again\n",
      "Downloading a/b: 7200 of 7200 MB (100%)\n",
    ]);
  });

  test("a line that is longer than the terminal is wide is cut, as only one line can change", () => {
    const report = downloadReport("a/b", { ...output(true), columns: 20 });
    report.progress(0, 100e6);
    expect(written).toBe("\r\x1b[KDownloading a/b: 0.");
  });

  test("a file that is begun again makes no negative rate", () => {
    const report = downloadReport("a/b", output(false), { now: () => time });
    for (const done of [0, 50e6, 10e6, 20e6]) {
      report.progress(done, 100e6);
      time += 5000;
    }
    expect(written).toContain("10.0 of 100 MB (10%)\n");
    expect(written).toContain("20.0 of 100 MB (20%), 2.0 MB/s, 40 s left");
  });
});

test("startEngine refuses an incomplete model of a hub before it opens a device", async () => {
  await open();
  expect(await run("download", ID).code).toBe(0);
  rmSync(fixture.path("snapshots", COMMIT, "tokenizer.json"));
  const options = { modelPath: ID } as EngineLaunchOptions;
  await expect(startEngine(options, undefined as never)).rejects.toThrow("lacks tokenizer.json");
});
