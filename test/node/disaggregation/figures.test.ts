/** What a prefill server tells of requests that no decode server has come for. */

import { afterEach, expect, test } from "vitest";
import { FrameGate } from "../../../src/disaggregation/frame_gate.ts";
import { PrefillRoom } from "../../../src/disaggregation/prefill_room.ts";
import { RoomFigures } from "../../../src/disaggregation/room_figures.ts";
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

async function prefillServer(...args: readonly string[]) {
  const scripted = new ScriptedEngine({ script: () => ({ pieces: ["a"] }) });
  const engine = Object.assign(scripted, { pageLayout: LAYOUT }) as unknown as Engine;
  const port = ["--disaggregation-bootstrap-port", "0"];
  return roleServer(engine, "prefill", [...port, ...args]);
}

/** Series of the page, without the labels that all have. */
async function metricsOf({ url }: { readonly url: string }): Promise<readonly string[]> {
  const page = await (await fetch(`${url}/metrics`)).text();
  const all = 'engine_type="prefill",tp_rank="0",pp_rank="0",dp_rank="0"';
  return page
    .split("\n")
    .filter((line) => line.startsWith("wisp:"))
    .map((line) =>
      line
        .replace(all, "")
        .replace(/,?model_name="m"/, "")
        .replace("{,", "{"),
    );
}

test("requests that wait count as load, and those that end by why", async () => {
  const server = await prefillServer();
  const { url, role } = server;
  const client = new AbortController();
  const rooms = [1, 2, 3].map((bootstrap_room) => ({
    text: "a",
    rid: `${bootstrap_room}`,
    bootstrap_room,
  }));
  const asked = rooms.map((body) => postTo(url, "/generate", body, { signal: client.signal }));
  const ends = Promise.allSettled(asked);
  await until(() => expect(role.counts().rooms).toBe(3));
  await until(async () => {
    expect(await (await fetch(`${url}/get_load`)).json()).toMatchObject({
      num_reqs: 3,
      num_waiting_rooms: 3,
      num_transferring_rooms: 0,
    });
  });
  const lines = await metricsOf(server);
  expect(lines).toContain("wisp:num_prefill_prealloc_queue_reqs{} 3");
  expect(lines).toContain("wisp:num_prefill_inflight_queue_reqs{} 0");
  expect(lines).toContain("wisp:disaggregated_reqs_total{} 3");
  expect(lines).toContain("wisp:disaggregation_awaited_reqs{} 0");
  client.abort();
  await ends;
  await until(() => expect(role.counts().rooms).toBe(0));
  const info = (await (await fetch(`${url}/get_server_info`)).json()) as object;
  expect(info).toMatchObject({
    disaggregation: {
      ...{ rooms: 0, opened: 3, failed: 3, failed_before_transfer: 3, pages: 0, transfers: 0 },
      failures: { aborted: 3, timed_out: 0, lost: 0, other_server: 0, other: 0 },
    },
  });
  const later = await metricsOf(server);
  expect(later).toContain('wisp:disaggregation_failed_reqs_total{reason="aborted"} 3');
  expect(later).toContain("wisp:num_bootstrap_failed_reqs_total{} 3");
  expect(later).toContain("wisp:num_transfer_failed_reqs_total{} 0");
});

test("a request that waits too long counts as that", async () => {
  const { url, role } = await prefillServer("--disaggregation-bootstrap-timeout", "0.1");
  const answer = await postTo(url, "/generate", { text: "a", bootstrap_room: 1 });
  expect(answer.status).toBe(500);
  expect(role.counts().failures).toMatchObject({ timed_out: 1, aborted: 0, other: 0 });
});

test("a room that fails counts by whether its pages had been asked for", () => {
  const figures = new RoomFigures();
  const failed = (isWanted: boolean) => {
    const room = new PrefillRoom({
      ...{ room: "1", requestId: undefined, openTimeout: 1000, takeTimeout: 1000, figures },
      gate: new FrameGate(2),
      onOver: (failure) => figures.ended(failure),
    });
    room.pair({ channel: { send() {} }, lease: 1, digest: "", formed: (bytes) => bytes });
    if (isWanted) room.want(0);
    room.lose("its client has left", "other_server");
    return [figures.failed, figures.failedBefore];
  };
  // Its decode server waits for a place.
  expect(failed(false)).toEqual([1, 1]);
  expect(failed(true)).toEqual([2, 1]);
});
