/** What replicas have of requests that they share with other servers adds up. */
import { expect, test } from "vitest";
import { joinedRooms } from "../../../src/node/replicas/joined_rooms.ts";
import type { RoleCounts } from "../../../src/server/server_context.ts";

const NONE: RoleCounts = {
  rooms: 0,
  transferring: 0,
  servers: 2,
  opened: 0,
  failed: 0,
  failed_before_transfer: 0,
  failures: {},
  pages: 0,
  page_bytes: 0,
  transfers: 0,
  transfer_seconds: 0,
  kv_transfer_speed_gb_s: 0,
  kv_transfer_latency_ms: 0,
};
const FIRST: RoleCounts = {
  rooms: 2,
  transferring: 1,
  servers: 3,
  opened: 7,
  failed: 2,
  failed_before_transfer: 1,
  failures: { timeout: 1, lost: 1 },
  pages: 40,
  page_bytes: 4000,
  transfers: 5,
  transfer_seconds: 1.5,
  kv_transfer_speed_gb_s: 2,
  kv_transfer_latency_ms: 10,
};
const SECOND: RoleCounts = {
  rooms: 1,
  transferring: 0,
  awaited: 4,
  servers: 1,
  opened: 3,
  failed: 1,
  failed_before_transfer: 0,
  failures: { lost: 1 },
  pages: 2,
  page_bytes: 200,
  transfers: 1,
  transfer_seconds: 0.5,
  kv_transfer_speed_gb_s: 4,
  kv_transfer_latency_ms: 30,
};

test("counts add up, and servers that all have met count once", () => {
  expect(joinedRooms([FIRST, SECOND, NONE])).toEqual({
    rooms: 3,
    transferring: 1,
    awaited: 4,
    servers: 3,
    opened: 10,
    failed: 3,
    failed_before_transfer: 1,
    failures: { timeout: 1, lost: 2 },
    pages: 42,
    page_bytes: 4200,
    transfers: 6,
    transfer_seconds: 2,
    kv_transfer_speed_gb_s: 3,
    kv_transfer_latency_ms: 20,
  });
});

test("one has its own counts, and those without a transfer no speed", () => {
  for (const one of [NONE, FIRST, SECOND]) expect(joinedRooms([one])).toEqual(one);
});
