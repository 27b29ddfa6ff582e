/** /start_profile and /stop_profile: what they write, where, and what they refuse. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DeviceError, UnsupportedError } from "../../../src/errors.ts";
import { ProfileFiles } from "../../../src/node/observe/profile_files.ts";
import {
  type ChromeTrace,
  formatProfile,
  type Profile,
  type ProfileOptions,
} from "../../../src/profile.ts";
import { type AppOptions, createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { errorMessage } from "../../support/server/http_client.ts";
import { until } from "../../support/until.ts";

const PROFILE: Profile = {
  rates: { copy: 1e11, fma: 1e13 },
  steps: 1,
  microseconds: 500,
  kernels: [
    {
      ...{ kernel: "linear/linear", launches: 1, microseconds: 40 },
      ...{ bytes: 1e6, flops: 2e6, boundMicroseconds: 10 },
    },
  ],
  launches: [
    {
      ...{ kernel: "linear/linear", part: "layer 0", grid: [8, 1, 1] },
      ...{ start: 120, duration: 40, bytes: 1e6, flops: 2e6 },
    },
  ],
  host: [{ name: "schedule", start: 100, duration: 5 }],
  exchanges: [],
  omittedSpans: 0,
};

/** An engine whose profiles end with their work, or once `passSteps` is called. */
class MeasuredEngine extends ScriptedEngine {
  readonly asked: ProfileOptions[] = [];
  passSteps = () => {};

  async profile(work: () => Promise<unknown>, options: ProfileOptions): Promise<Profile> {
    this.asked.push(options);
    const steps = new Promise<void>((resolve) => {
      this.passSteps = resolve;
    });
    await Promise.race([work(), steps]);
    return PROFILE;
  }
}

let folder: string;
let log: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "wisp-profile-"));
  log = "";
});

afterEach(() => rmSync(folder, { recursive: true }));

function setUp(options: AppOptions = {}, engine: ScriptedEngine = new MeasuredEngine()) {
  const profiles = new ProfileFiles(engine, {
    folder: join(folder, "profiles"),
    onProfile: (_, profile) => {
      log += formatProfile(profile);
    },
    onError: (error) => {
      log += error;
    },
  });
  const app = createApp(engine, { profiles, ...options });
  const post = (path: string, body?: unknown, headers: Record<string, string> = {}) =>
    app.request(path, {
      method: "POST",
      headers: { ...headers, ...(body !== undefined && { "content-type": "application/json" }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  return { app, post, engine };
}

async function refused(response: Response, status = 400): Promise<string> {
  expect(response.status).toBe(status);
  return errorMessage(response);
}

const files = () =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".json"))
    .map((name) => join(folder, name));

function trace(): ChromeTrace {
  expect(files()).toHaveLength(1);
  return JSON.parse(readFileSync(files()[0]!, "utf8")) as ChromeTrace;
}

const spans = ({ traceEvents }: ChromeTrace) => traceEvents.filter(({ ph }) => ph === "X");

describe("a profile", () => {
  test.each(["GET", "POST"])(
    "is started and stopped with %s, and is a file then",
    async (method) => {
      const { app } = setUp();
      const started = await app.request("/start_profile", { method });
      expect(await started.text()).toBe("Start profiling.\n");
      expect(files()).toEqual([]);
      const stopped = await app.request("/stop_profile", { method });
      expect(stopped.status).toBe(200);
      const name = /is in (\S+)\n$/.exec(await stopped.text())![1]!;
      expect(files()).toEqual([join(folder, "profiles", name)]);
      expect(spans(trace())).toEqual([
        { name: "schedule", ph: "X", pid: 1, tid: 1, ts: 100, dur: 5 },
        {
          ...{ name: "linear/linear", ph: "X", pid: 1, tid: 2, ts: 120, dur: 40 },
          args: { part: "layer 0", grid: "8x1x1", bytes: 1e6, flops: 2e6 },
        },
      ]);
      expect(log).toMatch(/linear\/linear +1 +40 +100\.0 % +25\.0 +50\.0 +25\.0 %/);
    },
  );

  test("goes to a place in the operator's folder", async () => {
    const { post } = setUp();
    await post("/start_profile", { output_dir: "today/first" });
    const text = await (await post("/stop_profile")).text();
    expect(text).toContain(join("is in today", "first", "wisp-"));
    expect(files()[0]).toContain(join(folder, "profiles", "today", "first"));
  });

  test("measures so many steps from that one on, and is written without being stopped", async () => {
    const engine = new MeasuredEngine();
    const { post } = setUp({}, engine);
    await post("/start_profile", { num_steps: 3, start_step: 7 });
    expect(engine.asked).toMatchObject([{ steps: 3, firstStep: 7 }]);
    engine.passSteps();
    await until(() => expect(log).toContain("1 steps; the adapter"));
    expect(spans(trace())).toHaveLength(2);
    expect(await refused(await post("/stop_profile"))).toContain("has started none");
  });

  test("has what was asked for", async () => {
    const { post } = setUp();
    await post("/start_profile", { activities: ["GPU"], record_shapes: false });
    await post("/stop_profile");
    const [launch, ...others] = spans(trace());
    expect(others).toEqual([]);
    expect(launch!.args).toEqual({ part: "layer 0", bytes: 1e6, flops: 2e6 });
  });

  test("is followed by others", async () => {
    const { post } = setUp();
    for (let i = 0; i < 2; i++) {
      expect((await post("/start_profile", {})).status).toBe(200);
      expect((await post("/stop_profile", {})).status).toBe(200);
    }
    expect(files()).toHaveLength(2);
  });
});

describe("refused with 400 and a reason:", () => {
  const refusal = async (body: unknown) => {
    const { post, engine } = setUp();
    const message = await refused(await post("/start_profile", body));
    expect((engine as MeasuredEngine).asked).toEqual([]);
    expect(files()).toEqual([]);
    return message;
  };

  test.each(["..", "../elsewhere", "a/../../b", "/etc", "a\0b"])(
    "the folder %j, which is not the operator's",
    async (output_dir) => {
      const wanted =
        "Cannot use output_dir: it must be in the folder of the server's option --profile-dir";
      expect(await refusal({ output_dir })).toBe(wanted);
    },
  );

  test.each([
    ["num_steps", 0],
    ["start_step", -1],
    ["activities", []],
    ["activities", ["MEM"]],
    ["with_stack", true],
    ["profile_by_stage", true],
    ["merge_profiles", true],
    ["output_dir", 5],
  ])("%s %j", async (name, value) => {
    expect(await refusal({ [name]: value })).toContain(name);
  });

  test("a second one while the first is taken", async () => {
    const { post } = setUp();
    await post("/start_profile");
    const message = await refused(await post("/start_profile"));
    expect(message).toContain("/stop_profile ends the one before");
    expect((await post("/stop_profile")).status).toBe(200);
  });

  test("the end of one that was never begun", async () => {
    const { post } = setUp();
    expect(await refused(await post("/stop_profile"))).toContain("has started none");
  });

  test.each(["/start_profile", "/stop_profile"])(
    "%s of a server without a folder",
    async (path) => {
      const { post } = setUp({ profiles: undefined });
      expect(await refused(await post(path))).toContain("--profile-dir");
    },
  );

  test("engines that cannot be measured", async () => {
    const { post } = setUp({}, new ScriptedEngine());
    const message = await refused(await post("/start_profile"));
    expect(message).toBe("Cannot use a profile: this engine cannot be measured");
  });

  test("GPUs that take no times", async () => {
    const engine = new MeasuredEngine();
    const reason = "the device does not have the feature timestamp-query";
    engine.profile = () => Promise.reject(new UnsupportedError("a profile", reason));
    const { post } = setUp({}, engine);
    expect(await refused(await post("/start_profile"))).toContain("timestamp-query");
    // It has left nothing behind that would be in the way of the next.
    expect(await refused(await post("/start_profile"))).toContain("timestamp-query");
  });
});

test("a profile that no request stops fails in the log, one that is stopped in the answer", async () => {
  const engine = new MeasuredEngine();
  const reported: unknown[] = [];
  const { post } = setUp({ reportError: (error) => reported.push(error) }, engine);
  let fail = () => {};
  engine.profile = async (work) => {
    const failure = new Promise<never>((_, reject) => {
      fail = () => reject(new DeviceError("Cannot read times of launches: the device is lost"));
    });
    await Promise.race([work().then(() => failure), failure]);
    return PROFILE;
  };
  await post("/start_profile");
  fail();
  await until(() => expect(log).toContain("Cannot read times of launches"));
  expect(reported).toEqual([]);

  log = "";
  await post("/start_profile");
  const stopped = post("/stop_profile");
  fail();
  expect(await refused(await stopped, 500)).toContain("Cannot read times");
  expect(reported).toHaveLength(1);
  expect(log).toBe("");
});

test.each(["/start_profile", "/stop_profile"])(
  "%s asks for the key of the operator",
  async (path) => {
    const { post } = setUp({ apiKey: "key", adminApiKey: "admin" });
    expect((await post(path)).status).toBe(401);
    expect((await post(path, undefined, { authorization: "Bearer key" })).status).toBe(403);
    const answer = await post(path, undefined, { authorization: "Bearer admin" });
    expect(answer.status).toBe(path === "/start_profile" ? 200 : 400);
  },
);
