import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { downloadModel } from "../../../src/node/hub/download_model.ts";
import { type HubFixture, hubFixture, ID } from "../../support/server/hub_model.ts";
import type { HubHit, HubServerOptions } from "../../support/server/hub_server.ts";

const fixtures: HubFixture[] = [];

async function open(server?: HubServerOptions): Promise<HubFixture> {
  const fixture = await hubFixture(server);
  fixtures.push(fixture);
  return fixture;
}

afterEach(async () => {
  await Promise.all(fixtures.splice(0).map((fixture) => fixture.close()));
});

describe("the access token", () => {
  test("goes to the hub and never to where it redirects", async () => {
    const fixture = await open({ token: "secret" });
    const env = { ...fixture.options.env, HF_TOKEN: " secret\n" };
    await downloadModel(ID, { ...fixture.options, env });
    const sent = (kind: HubHit["kind"]) =>
      new Set(fixture.hub.hits.filter((hit) => hit.kind === kind).map((hit) => hit.authorization));
    expect(sent("list")).toEqual(new Set(["Bearer secret"]));
    expect(sent("file")).toEqual(new Set(["Bearer secret"]));
    expect(sent("store")).toEqual(new Set([undefined]));
  });

  test.each(["token", "elsewhere"])("comes from the file %s", async (name) => {
    const fixture = await open({ token: "stored" });
    const home = fixture.options.env!.HF_HOME!;
    mkdirSync(home, { recursive: true });
    writeFileSync(join(home, name), "stored\n");
    const path = name === "token" ? {} : { HF_TOKEN_PATH: join(home, name) };
    await downloadModel(ID, { ...fixture.options, env: { ...fixture.options.env, ...path } });
  });

  test("is not shown where it cannot be sent", async () => {
    const fixture = await open();
    const env = { ...fixture.options.env, HF_TOKEN: "a\u{1f511}b" };
    await expect(downloadModel(ID, { ...fixture.options, env })).rejects.toThrow(
      /^Cannot use the access token of the environment: it has a character no token has$/,
    );
  });

  test.each([
    [{}, "private or gated: HF_TOKEN has to hold a token"],
    [{ HUGGING_FACE_HUB_TOKEN: "wrong" }, "the token is not valid, or may not read it"],
  ])("missing or wrong: %j", async (variables, message) => {
    const fixture = await open({ token: "secret" });
    const env = { ...fixture.options.env, ...variables };
    const text = await downloadModel(ID, { ...fixture.options, env }).then(
      () => "",
      (error: Error) => error.message,
    );
    expect(text).toContain(message);
    expect(text).not.toContain("wrong");
  });
});

test("HF_HUB_OFFLINE keeps a download from the network", async () => {
  const fixture = await open();
  const env = { ...fixture.options.env, HF_HUB_OFFLINE: "1" };
  await expect(downloadModel(ID, { ...fixture.options, env })).rejects.toThrow(
    `Cannot download ${ID}: HF_HUB_OFFLINE forbids the network`,
  );
  expect(fixture.hub.hits).toEqual([]);
});
