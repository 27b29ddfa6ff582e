/**
 * The figures of a server that shares requests with another one, under the names that dashboards for
 * such servers know, and some of its own.
 *
 * @module
 */
import { Counter, Gauge, type Registry } from "prom-client";
import type { CountedRole, RoleCounts } from "../../server/server_context.ts";

type Labels = Readonly<Record<string, string>>;

/** @param labels Of each series. */
export function addRoleMetrics(registry: Registry, role: CountedRole, labels: Labels): void {
  const registers = [registry];
  const labelNames = Object.keys(labels);
  const gauge = (name: string, help: string, value: (counts: RoleCounts) => number) =>
    new Gauge({
      name: `wisp:${name}`,
      help,
      labelNames,
      registers,
      collect() {
        this.set(labels, value(role.counts()));
      },
    });
  const counter = (name: string, help: string, value: (counts: RoleCounts) => number) =>
    new Counter({
      name: `wisp:${name}`,
      help,
      labelNames,
      registers,
      collect() {
        this.reset();
        this.inc(labels, value(role.counts()));
      },
    });
  addRooms(role, gauge);
  addTransfers(gauge, counter);
  new Counter({
    name: "wisp:disaggregation_failed_reqs_total",
    help: "Requests that have failed between two servers, by why.",
    labelNames: [...labelNames, "reason"],
    registers,
    collect() {
      this.reset();
      for (const [reason, count] of Object.entries(role.counts().failures)) {
        this.inc({ ...labels, reason }, count);
      }
    },
  });
}

type Add = (name: string, help: string, value: (counts: RoleCounts) => number) => unknown;

function addRooms({ name }: CountedRole, gauge: Add): void {
  const moves = name === "prefill" ? "inflight" : "transfer";
  gauge(
    `num_${name}_prealloc_queue_reqs`,
    "Requests whose pages are not asked for yet.",
    ({ rooms, transferring }) => rooms - transferring,
  );
  gauge(
    `num_${name}_${moves}_queue_reqs`,
    "Requests whose pages are on their way.",
    ({ transferring }) => transferring,
  );
  gauge("disaggregation_servers", "Servers of the other kind that are connected.", (counts) => {
    return counts.servers;
  });
  if (name !== "prefill") return;
  gauge(
    "disaggregation_awaited_reqs",
    "Requests that decode servers have, and that have not come here yet.",
    ({ awaited = 0 }) => awaited,
  );
  gauge(
    "disaggregation_frames",
    "Messages with pages that are on their way.",
    ({ frames = 0 }) => frames,
  );
}

function addTransfers(gauge: Add, counter: Add): void {
  counter(
    "num_bootstrap_failed_reqs_total",
    "Requests that have failed before pages were asked for.",
    (counts) => counts.failed_before_transfer,
  );
  counter(
    "num_transfer_failed_reqs_total",
    "Requests that have failed while their pages were on their way.",
    (counts) => counts.failed - counts.failed_before_transfer,
  );
  gauge(
    "kv_transfer_speed_gb_s",
    "Gigabytes of pages a second, of the last prompt whose pages are all in place.",
    (counts) => counts.kv_transfer_speed_gb_s,
  );
  gauge(
    "kv_transfer_latency_ms",
    "Milliseconds from when its pages were asked for until all were in place.",
    (counts) => counts.kv_transfer_latency_ms,
  );
  counter("disaggregated_reqs_total", "Requests that two servers share.", ({ opened }) => opened);
  counter("kv_transfers_total", "Prompts whose pages are all in place.", (counts) => {
    return counts.transfers;
  });
  counter("kv_transfer_seconds_total", "Seconds that their pages took.", (counts) => {
    return counts.transfer_seconds;
  });
  counter("kv_transfer_pages_total", "Pages that were sent or received.", ({ pages }) => pages);
  counter("kv_transfer_bytes_total", "Bytes of these pages.", (counts) => counts.page_bytes);
}
