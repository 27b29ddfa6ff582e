/** A server that is to go on with tokens which it draws otherwise says so, and has not failed itself. */
import { expect, test } from "vitest";
import { decoded } from "../../src/disaggregation/decode_layer.ts";
import { DecodeRooms } from "../../src/disaggregation/decode_rooms.ts";
import type { TravelEngine } from "../../src/disaggregation/prefill_layer.ts";
import { InvalidRequestError } from "../../src/errors.ts";

const WAITS = { openTimeout: 1000, takeTimeout: 1000, connectTimeout: 1000, waitTimeout: 1000 };

test("tokens of a begun answer that are drawn otherwise are the request's fault", async () => {
  const rooms = new DecodeRooms({
    layout: {
      ...{ modelHash: "m", numerics: "{}", dtype: "bf16", entryWidth: 8, pageSize: 4, layers: 2 },
    },
    ...{ key: "", port: 1, hosts: [{ host: "p" }], takesTickets: false },
    times: { ...WAITS, heartbeat: { interval: 10_000, misses: 3 } },
    connect: () => new Promise(() => {}),
  });
  const chunks = [[5, 6], [7]].map((tokens) => ({ text: "", tokens, cachedTokens: 0 }));
  const engine = {
    async *generate() {
      yield* chunks;
    },
  } as unknown as TravelEngine;
  const bootstrap = { host: "p", room: "1", begun: { seed: 1, tokens: [5, 6, 8] } };
  // They are drawn again where log-probabilities are asked for.
  const request = { prompt: [1], bootstrap, logprobs: { top: 0 } };
  const heard: number[][] = [];
  const answer = (async () => {
    for await (const { tokens } of decoded(engine, rooms, request as never))
      heard.push([...tokens]);
  })();
  await expect(answer).rejects.toThrow(InvalidRequestError);
  await expect(answer).rejects.toThrow("token 2 of it is another one here");
  expect(heard).toEqual([[5, 6]]);
  expect(rooms.counts.rooms).toBe(0);
  rooms.close();
});
