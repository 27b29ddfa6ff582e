/**
 * The engine of a decode node: prompts whose pages a prefill server computes come over WebSockets of the
 * engine's own worker. Nothing of the node's cache goes the other way.
 *
 * @module
 */
import { decoded } from "../../disaggregation/decode_layer.ts";
import { DecodeRooms, type KnownHost } from "../../disaggregation/decode_rooms.ts";
import type { Engine } from "../../engine/engine.ts";
import { UnsupportedError } from "../../errors.ts";
import type { GenerationEngine } from "../../generation.ts";
import { layerOver } from "../../server/engine_layer.ts";
import { connectPage } from "./page_socket.ts";

/** What has come so far, and what is on its way. */
export interface ArrivedPages {
  /** Prompts that are shared with a prefill server and run or wait, and those that have failed. */
  readonly rooms: number;
  readonly failed: number;
  /** Pages of caches, and their bytes. */
  readonly pages: number;
  readonly bytes: number;
  /** Prompts whose pages are all in place, and the seconds that these took. */
  readonly prompts: number;
  readonly seconds: number;
}

const PORT = 8998;
const CONNECT_TIMEOUT = 10_000;
const WAIT_TIMEOUT = 300_000;
const HEARTBEAT = { interval: 2000, misses: 3 };
/** Milliseconds from one report to the next, while prompts arrive. */
const REPORT_TIME = 100;
/** Prefill servers that are known at once: requests of the router name them. */
const MOST_HOSTS = 256;

/** @param onPages Told a few times a second while prompts arrive, and once when one has ended. */
export function withArrivingPrompts(
  engine: Engine,
  onPages: (pages: ArrivedPages) => void,
): GenerationEngine {
  const hosts: KnownHost[] = [];
  let rooms: DecodeRooms | undefined;
  const open = () => {
    const { pageLayout: layout } = engine;
    if (layout === undefined) throw new UnsupportedError("bootstrap", "the engine has no pages");
    rooms ??= new DecodeRooms({
      layout,
      key: "",
      takesTickets: true,
      times: { connectTimeout: CONNECT_TIMEOUT, waitTimeout: WAIT_TIMEOUT, heartbeat: HEARTBEAT },
      port: PORT,
      hosts,
      connect: (host, port) => {
        const name = host.includes(":") ? `[${host}]` : host;
        return connectPage(`ws://${name}:${port}/pages`, CONNECT_TIMEOUT);
      },
    });
    return rooms;
  };
  const report = () => {
    const { figures, counts } = rooms!;
    const { failed, pages, pageBytes: bytes, transfers: prompts, transferSeconds } = figures;
    onPages({ rooms: counts.rooms, failed, pages, bytes, prompts, seconds: transferSeconds });
  };
  return layerOver(engine, {
    generate: (request) => {
      const { bootstrap } = request;
      if (typeof bootstrap?.ticket !== "object") return engine.generate(request);
      // The router, which has given the ticket, says where the pages are.
      const { host = "", port = PORT } = bootstrap;
      if (!hosts.some((known) => known.host === host.toLowerCase() && known.port === port)) {
        if (hosts.length >= MOST_HOSTS) hosts.shift();
        hosts.push({ host: host.toLowerCase(), port });
      }
      return reporting(decoded(engine, open(), request), report);
    },
  });
}

async function* reporting<T>(
  chunks: AsyncGenerator<T, undefined>,
  report: () => void,
): AsyncGenerator<T, undefined> {
  const timer = setInterval(report, REPORT_TIME);
  try {
    for await (const chunk of chunks) {
      yield chunk;
      report();
    }
    return undefined;
  } finally {
    clearInterval(timer);
    report();
  }
}
