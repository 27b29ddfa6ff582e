/** What a decode server asks of a prefill server with another page size, and makes of what comes. */
import { expect, test } from "vitest";
import { allocatePacked, openPacked, seal } from "../../src/cache/page_header.ts";
import { encodeFrame } from "../../src/disaggregation/page_frame.ts";
import { travellingPrompt } from "../../src/engine/transfer/page_routes.ts";
import { SPOKEN_LAYOUT, spokenPrefill } from "../support/spoken_prefill.ts";
import { until } from "../support/until.ts";

const tokens = Array.from({ length: 12 }, (_, i) => i);

test.each([0, 257, -1, 1.5, "4", undefined])(
  "a prefill server with pages of %j tokens is not used",
  async (pageSize) => {
    const { rooms } = spokenPrefill({ pageSize });
    const room = rooms.open({ host: "p", room: "1" }, false);
    room.announce(travellingPrompt({ tokens }, SPOKEN_LAYOUT.pageSize));
    const pages = room.pages(0);
    await expect(pages.next()).rejects.toThrow(
      /pages are of \d+ tokens|\(pageSize\): it is no count/,
    );
    rooms.close();
  },
);

test("pages are asked for and counted as the prefill server has them", async () => {
  const { rooms, said, send } = spokenPrefill({ pageSize: 3 });
  const room = rooms.open({ host: "p", room: "1" }, false);
  room.announce(travellingPrompt({ tokens }, SPOKEN_LAYOUT.pageSize));
  const pages = room.pages(1);
  const next = pages.next();
  // Its first four tokens are there; the fifth is on the second page of three.
  await until(() => expect(said).toContainEqual({ type: "want", lease: 0, first: 1 }));
  const page = (first: number) => {
    const header = { ...SPOKEN_LAYOUT, pageSize: 3, firstLayer: 0, layerCount: 1, pageCount: 1 };
    const { bytes, payload } = allocatePacked(header);
    for (let i = 0; i < payload.length; i++) payload[i] = 3 * first + Math.floor(i / 4);
    seal(bytes);
    return encodeFrame({ lease: 0, first, count: 1, bytes });
  };
  const entries = async (run: typeof next) => {
    const { value } = await run;
    const { first, count, bytes } = value!;
    const { payload } = openPacked(bytes, SPOKEN_LAYOUT);
    return [first, count, Array.from(payload.filter((_, i) => i % 4 === 0))];
  };
  send(page(1));
  send(page(2));
  expect(await entries(next)).toEqual([1, 1, [4, 5, 6, 7]]);
  // The first one made none of this server's whole, and is in place all the same.
  await until(() => expect(said.filter(({ type }) => type === "taken")).toHaveLength(1));
  const last = pages.next();
  send(page(3));
  // Eleven tokens travel.
  expect(await entries(last)).toEqual([2, 1, [8, 9, 10, 0]]);
  send(JSON.stringify({ type: "end", lease: 0, cachedTokens: 0 }));
  expect((await pages.next()).done).toBe(true);
  expect(rooms.figures).toMatchObject({ pages: 3, failed: 0 });
  rooms.close();
});
