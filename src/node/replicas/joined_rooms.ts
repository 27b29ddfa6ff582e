/**
 * What several replicas have of requests that they share with other servers, as one server says it.
 *
 * @module
 */
import type { RoleCounts } from "../../server/server_context.ts";

type Sum = Exclude<keyof RoleCounts, "awaited" | "frames" | "failures" | "servers">;

/** @param counts Of each of them; at least one. Where they have met the same servers, these count once. */
export function joinedRooms(counts: readonly RoleCounts[]): RoleCounts {
  const sum = (of: (one: RoleCounts) => number) => counts.reduce((all, one) => all + of(one), 0);
  const all = (name: Sum) => sum((one) => one[name]);
  const failures: Record<string, number> = {};
  for (const one of counts) {
    for (const [why, count] of Object.entries(one.failures)) {
      failures[why] = (failures[why] ?? 0) + count;
    }
  }
  const optional = (name: "awaited" | "frames") =>
    counts.some((one) => one[name] !== undefined) && { [name]: sum((one) => one[name] ?? 0) };
  // Which of them had the last is not known: those that had any count alike.
  const had = Math.max(counts.filter(({ transfers }) => transfers > 0).length, 1);
  return {
    rooms: all("rooms"),
    transferring: all("transferring"),
    ...optional("awaited"),
    ...optional("frames"),
    servers: counts.reduce((most, { servers }) => Math.max(most, servers), 0),
    opened: all("opened"),
    failed: all("failed"),
    failed_before_transfer: all("failed_before_transfer"),
    failures,
    pages: all("pages"),
    page_bytes: all("page_bytes"),
    transfers: all("transfers"),
    transfer_seconds: all("transfer_seconds"),
    kv_transfer_speed_gb_s: all("kv_transfer_speed_gb_s") / had,
    kv_transfer_latency_ms: all("kv_transfer_latency_ms") / had,
  };
}
