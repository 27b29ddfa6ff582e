/** An abort of a request of which all is computed, while its pages leave. */
import { afterEach, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { roleServer } from "../../support/router/pair_servers.ts";
import { postTo } from "../../support/router/running_router.ts";
import { closeAll } from "../../support/router/worker_servers.ts";
import { until } from "../../support/until.ts";

afterEach(closeAll);

const LAYOUT = {
  ...{ modelHash: "m", numerics: "{}", dtype: "bf16" as const },
  ...{ entryWidth: 8, pageSize: 4, layers: 2 },
};

test("ends the request and its room, and no other", async () => {
  const scripted = new ScriptedEngine({ script: () => ({ pieces: ["a"] }) });
  const engine = Object.assign(scripted, { pageLayout: LAYOUT }) as unknown as Engine;
  const { url, role } = await roleServer(engine, "prefill", [
    ...["--disaggregation-bootstrap-port", "0"],
  ]);
  const ask = async (rid: string, bootstrap_room: number) => {
    const answer = await postTo(url, "/generate", { text: "a", rid, bootstrap_room });
    const { meta_info } = (await answer.json()) as { meta_info?: { finish_reason: object } };
    return [answer.status, meta_info?.finish_reason];
  };
  const asked = [ask("one", 1), ask("two", 2)];
  await until(() => expect([scripted.requests.length, role.counts().rooms]).toEqual([2, 2]));
  // Both have their tokens, and wait for a decode server that takes their pages.
  await new Promise((resolve) => setTimeout(resolve, 50));
  for (const [i, rid] of ["one", "two"].entries()) {
    await postTo(url, "/abort_request", { rid });
    expect(await asked[i]).toEqual([200, expect.objectContaining({ type: "abort" })]);
    expect(role.counts().rooms).toBe(1 - i);
  }
});
