/** What a caller of an engine behind a port still gets when it closes. */
import { expect, test } from "vitest";
import { messagePort } from "../../../src/engine/remote/port.ts";
import { RemoteEngine } from "../../../src/engine/remote/remote_engine.ts";
import { serveEngine } from "../../../src/engine/remote/serve_engine.ts";
import type { GenerationEngine } from "../../../src/generation.ts";
import type { Profile } from "../../../src/profile.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";

test("a profile that has begun is answered when its caller closes", async () => {
  const engine = new ScriptedEngine() as GenerationEngine & ScriptedEngine;
  engine.profile = async (work) => {
    await work();
    return { steps: 2 } as Profile;
  };
  const { port1, port2 } = new MessageChannel();
  serveEngine(engine, messagePort(port1));
  const remote = await RemoteEngine.connect(messagePort(port2));
  let profile: Promise<Profile> | undefined;
  await new Promise<void>((begun) => {
    profile = remote.profile!(() => {
      begun();
      return new Promise<never>(() => {});
    });
  });
  await remote.close();
  expect(await profile).toEqual({ steps: 2 });
});
