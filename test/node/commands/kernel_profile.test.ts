import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Profile } from "../../../src/profile.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { sendSignal, startCommand } from "../../support/package/run_command.ts";

const KERNEL = {
  ...{ kernel: "norm/add_norm", launches: 3, microseconds: 12 },
  ...{ bytes: 6000, flops: 300, boundMicroseconds: 6 },
};

/** Its profile ends with it. */
class MeasuredEngine extends ScriptedEngine {
  end = () => {};

  async profile(work: () => Promise<unknown>): Promise<Profile> {
    const closed = new Promise<void>((resolve) => {
      this.end = resolve;
    });
    await Promise.race([work(), closed]);
    const rates = { copy: 1e9, fma: 1e9 };
    const spans = { launches: [], host: [], exchanges: [], omittedSpans: 0 };
    return { rates, steps: 2, microseconds: 100, kernels: [KERNEL], ...spans };
  }

  override async close(): Promise<void> {
    this.end();
  }
}

const args = ["launch_server", "--port", "0", "--profile-kernels"];

test("--profile-kernels writes a table of kernels when the server ends", async () => {
  const server = startCommand(args, new MeasuredEngine());
  await server.isReady;
  expect(server.stderr()).not.toContain("norm/add_norm");
  sendSignal("SIGTERM");
  expect(await server.code).toBe(0);
  expect(server.stderr()).toContain("Kernels: 2 steps; the adapter: copy 1.00 GB/s");
  expect(server.stderr()).toMatch(/norm\/add_norm +3 +12 +100\.0 % +0\.500 +0\.0250 +50\.0 %/);
});

test("--profile-kernels is refused where nothing can be measured", async () => {
  const server = startCommand(args);
  expect(await server.code).toBe(1);
  expect(server.lines().at(-1)).toBe(
    "Cannot use --profile-kernels: this engine cannot be measured",
  );
});

test("a profile that is being taken when the server ends is written", async () => {
  const folder = mkdtempSync(join(tmpdir(), "wisp-profiles-"));
  const server = startCommand(
    ["launch_server", "--port", "0", "--profile-dir", folder],
    new MeasuredEngine(),
  );
  await server.isReady;
  expect((await fetch(`${server.url()}/start_profile`)).status).toBe(200);
  expect(readdirSync(folder)).toEqual([]);
  sendSignal("SIGTERM");
  expect(await server.code).toBe(0);
  expect(readdirSync(folder)).toEqual([expect.stringMatching(/^wisp-.*\.trace\.json$/)]);
  expect(server.stderr()).toMatch(/Profile: \S+\.trace\.json\n2 steps; /);
  rmSync(folder, { recursive: true });
});

test("one profile is taken at a time", async () => {
  const server = startCommand([...args, "--profile-dir", "profiles"], new MeasuredEngine());
  expect(await server.code).toBe(2);
  expect(server.stderr()).toContain("--profile-kernels together with --profile-dir");
});
