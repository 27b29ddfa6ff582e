/**
 * The side panel of a server's page: its queue, cache and memory, and figures of all its requests.
 *
 * It asks once a second, only while it can be seen.
 *
 * @module
 */
import { element, fill, setText } from "../app/dom.ts";
import { formatBytes } from "../app/format.ts";
import { count, duration, percent, rounded } from "../drawing/figures.ts";
import { cacheParts, fillBar, type Part } from "../panel/memory_section.ts";
import type { Panel } from "../panel/panel_source.ts";
import { mountSections } from "../panel/sections.ts";
import { SpeedSection } from "../panel/speed_section.ts";
import type { ServerConnection } from "./server_connection.ts";
import {
  type ServerStatus,
  type ServerTotals,
  serverStatus,
  serverTotals,
} from "./server_status.ts";

/** Shows the panel in `root` and keeps it up to date until it is closed. */
export function mountServerPanel(root: HTMLElement, connection: ServerConnection): Panel {
  const speed = new SpeedSection();
  const memory = new ServerMemory();
  const requests = new RequestSection();
  const totals = new Totals(connection);
  const look = async () => {
    const status = serverStatus(await connection.client.json("/get_server_info"));
    speed.show(status);
    memory.show(status);
    requests.show(status, await totals.read());
  };
  return mountSections(root, { label: "Server", speed, others: [memory, requests], look });
}

class Totals {
  readonly #connection: ServerConnection;
  /** A server that does not count is asked once. */
  #isCounted = true;

  constructor(connection: ServerConnection) {
    this.#connection = connection;
  }

  /** Undefined where the server does not count. */
  async read(): Promise<ServerTotals | undefined> {
    if (!this.#isCounted) return undefined;
    const response = await this.#connection.send("/metrics");
    this.#isCounted = response.status !== 404;
    return response.ok ? serverTotals(await response.text()) : undefined;
  }
}

class ServerMemory {
  readonly element: HTMLElement;
  readonly #memory = element("div", { class: "panel-bar" });
  readonly #cache = element("div", { class: "panel-bar" });

  constructor() {
    this.element = element(
      "section",
      { class: "panel-section" },
      element("h3", {}, "Memory"),
      this.#memory,
      element("h3", {}, "KV cache"),
      this.#cache,
    );
  }

  show(status: ServerStatus): void {
    const { weightBytes, cacheBytes } = status;
    const parts: readonly Part[] = [
      { name: "weights", tone: "weights", size: weightBytes },
      { name: "KV cache", tone: "cache", size: cacheBytes },
    ];
    fillBar(this.#memory, parts, { what: "Memory", unit: formatBytes });
    fillBar(this.#cache, cacheParts(status), { what: "KV cache", unit: count });
  }
}

class RequestSection {
  readonly element: HTMLElement;
  readonly #list = element("dl", { class: "panel-list" });
  readonly #note = element("p", { class: "panel-note" });

  constructor() {
    this.element = element(
      "section",
      { class: "panel-section" },
      element("h3", {}, "All requests"),
      this.#list,
      this.#note,
    );
  }

  show({ throughput }: ServerStatus, totals: ServerTotals | undefined): void {
    const rows = [["tokens/s of late", rounded(throughput)], ...(totals ? totalRows(totals) : [])];
    const items = rows.map(([name, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, value)),
    );
    fill(this.#list, ...items);
    setText(
      this.#note,
      totals === undefined
        ? "The server's option --enable-metrics adds figures since its start."
        : "",
    );
  }
}

function totalRows(totals: ServerTotals): readonly (readonly [string, string])[] {
  const { requests, promptTokens, cachedTokens, generatedTokens, firstTokenSeconds } = totals;
  const share = promptTokens === 0 ? 0 : cachedTokens / promptTokens;
  return [
    ["requests", count(requests)],
    ["tokens generated", count(generatedTokens)],
    ["prompt tokens", count(promptTokens)],
    ["of them cached", percent(share)],
    ["first token", firstTokenSeconds === undefined ? "–" : duration(firstTokenSeconds)],
  ];
}
