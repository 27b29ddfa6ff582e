/**
 * What options make of a server that shares requests with another one: its rooms, and its end of the
 * connections between them.
 *
 * @module
 */

import { ownersOf, PageForm, type SharedLayout, UNSHARED } from "../../cache/page_form.ts";
import { packedSizes } from "../../cache/page_header.ts";
import { MAX_PAGE_SIZE } from "../../cache/page_pool.ts";
import { decoded } from "../../disaggregation/decode_layer.ts";
import { DecodeRooms } from "../../disaggregation/decode_rooms.ts";
import { MAX_CONTROL_BYTES, MAX_PAGE_BYTES } from "../../disaggregation/limits.ts";
import { FRAME_HEADER_BYTES } from "../../disaggregation/page_frame.ts";
import { prefilled, type TravelEngine } from "../../disaggregation/prefill_layer.ts";
import { PrefillRooms, requireRoom } from "../../disaggregation/prefill_rooms.ts";
import type { RoomFigures } from "../../disaggregation/room_figures.ts";
import { type DisaggregatedSide, UnsupportedError } from "../../errors.ts";
import type { GenerationChunk, GenerationEngine, GenerationRequest } from "../../generation.ts";
import { layerOver } from "../../server/engine_layer.ts";
import { isLoopback } from "../../server/guard/hosts.ts";
import type { CountedRole, RoleCounts } from "../../server/server_context.ts";
import type { Environment } from "../hub/hub_settings.ts";
import { transferWorkers } from "../options/engine_variables.ts";
import type { StartedEngine } from "../serve/start_engine.ts";
import { type BootstrapServerOptions, listenForDecode, PAGES_PATH } from "./bootstrap_server.ts";
import {
  type DisaggregationOptions,
  knownHosts,
  type RoleOptions,
} from "./disaggregation_options.ts";
import { openWays, type PageWays } from "./page_ways.ts";
import { connectWebSocket } from "./web_socket_channel.ts";

export interface OpenedRole extends CountedRole {
  /** Lines for the log, of which the last says where it listens. */
  readonly lines: readonly string[];
  /** Of a prefill server: at which decode servers find its rooms. */
  readonly port?: number;
  close(): Promise<void>;
}

export interface RoleSetting {
  readonly options: RoleOptions;
  readonly env: Environment;
  readonly onEvent: (text: string) => void;
}

/** Signs of life that may be missing. */
const MISSES = 3;
/** Milliseconds until the two ends of a new connection know each other. */
const CONNECT_TIMEOUT = 10_000;

/** What of an engine is needed here. */
type LoadedEngine = GenerationEngine & Pick<StartedEngine, "pageLayout" | "roomCounts">;

/**
 * @returns Undefined where the server shares nothing.
 * @throws {UnsupportedError} when its engine cannot.
 * @throws {Error} when the bootstrap port cannot be used.
 */
export async function openRole(
  engine: LoadedEngine,
  setting: RoleSetting,
): Promise<OpenedRole | undefined> {
  const { disaggregationMode: mode } = setting.options;
  if (mode === "null") return undefined;
  const { pageLayout: layout, roomCounts } = engine;
  if (roomCounts !== undefined) {
    const isMetHere = mode === "prefill" && layout !== undefined;
    return isMetHere ? openDoor(layout, setting, roomCounts) : roleOfRanks(mode, roomCounts);
  }
  if (layout === undefined) {
    throw new UnsupportedError("--disaggregation-mode", "pages of this engine cannot be moved");
  }
  const maxMessage = Math.max(MAX_CONTROL_BYTES, maxFrame(layout));
  const ways = await openWays(setting.options, maxMessage, setting.onEvent);
  try {
    return await (mode === "prefill" ? openPrefill : openDecode)(layout, setting, ways);
  } catch (error) {
    ways.close();
    throw error;
  }
}

/** The part of a server whose first rank, in a process of its own, has the rooms. */
function roleOfRanks(name: DisaggregatedSide, counts: () => RoleCounts): OpenedRole {
  return {
    name,
    lines: [],
    over: (engine) => layerOver(engine, { generate: (request) => withRoom(engine, request) }),
    counts,
    close: async () => {},
  };
}

async function* withRoom(
  engine: GenerationEngine,
  request: GenerationRequest,
): AsyncGenerator<GenerationChunk, undefined> {
  requireRoom(request.bootstrap?.room, request.requestId);
  yield* engine.generate(request);
}

/** The part of a server whose replicas, each in processes of its own, have the rooms. */
async function openDoor(
  layout: SharedLayout,
  { options, onEvent }: RoleSetting,
  roomCounts: () => RoleCounts,
): Promise<OpenedRole> {
  const { ReplicaDoor } = await import("./replica_door.ts");
  const door = new ReplicaDoor({
    form: new PageForm(layout),
    key: options.disaggregationKey ?? "",
    openTimeout: 1000 * options.disaggregationBootstrapTimeout,
    heartbeat: heartbeatOf(options),
    hasReplicas: true,
    onEvent,
  });
  const { lines, close } = await listen(options, (...met) => door.accept(...met));
  return {
    name: "prefill",
    lines,
    over: (engine) => layerOver(engine, { generate: (request) => door.generate(engine, request) }),
    counts: () => {
      const counts = roomCounts();
      const { awaited } = door.meetingCounts;
      return { ...counts, awaited: awaited + (counts.awaited ?? 0) };
    },
    close: async () => {
      door.close();
      await close();
    },
  };
}

interface Listening {
  readonly port: number;
  readonly lines: readonly string[];
  close(): Promise<void>;
}

/** Waits for decode servers at the bootstrap port. */
async function listen(
  { host: asked, ...options }: RoleOptions,
  accept: BootstrapServerOptions["accept"],
): Promise<Listening> {
  const { disaggregationKey: key = "", disaggregationBootstrapPort } = options;
  // Without a key whatever reaches it would be a decode server.
  const host = key === "" && !isLoopback(asked) ? "127.0.0.1" : asked;
  const given = { host, port: disaggregationBootstrapPort, takesPages: key !== "", accept };
  const { port, close } = await listenForDecode(given);
  const narrow = "Decode servers of this machine only are met: --disaggregation-key lets others in";
  const lines = [
    ...(host === asked ? [] : [narrow]),
    `Prefill: decode servers are met at ${host}:${port}`,
  ];
  return { port, lines, close };
}

async function openPrefill(
  layout: SharedLayout,
  { options, env, onEvent }: RoleSetting,
  ways: PageWays,
): Promise<OpenedRole> {
  const { disaggregationKey: key = "" } = options;
  const rooms = new PrefillRooms({
    layout,
    key,
    workers: transferWorkers(env),
    times: {
      openTimeout: 1000 * options.disaggregationBootstrapTimeout,
      takeTimeout: 1000 * options.disaggregationBootstrapTimeout,
      heartbeat: heartbeatOf(options),
    },
    onEvent,
  });
  const { port, lines, close } = await listen(options, (channel, isPage) => {
    rooms.accept(isPage ? channel : ways.over(channel), isPage);
  });
  return {
    name: "prefill",
    port,
    lines: [...ways.lines, ...lines],
    over: (engine) =>
      layerOver(engine, {
        generate: (request) => prefilled(engine as TravelEngine, rooms, request),
        abort: (requestId) => {
          engine.abort(requestId);
          rooms.abort(requestId);
        },
      }),
    counts: () => ({ ...rooms.counts, ...wireFigures(rooms.figures) }),
    close: async () => {
      rooms.close();
      await close();
      ways.close();
    },
  };
}

async function openDecode(
  layout: SharedLayout,
  { options, onEvent }: RoleSetting,
  ways: PageWays,
): Promise<OpenedRole> {
  const rooms = new DecodeRooms({
    layout,
    key: options.disaggregationKey ?? "",
    times: {
      connectTimeout: CONNECT_TIMEOUT,
      waitTimeout: 1000 * options.disaggregationWaitingTimeout,
      heartbeat: heartbeatOf(options),
    },
    port: options.disaggregationBootstrapPort,
    hosts: knownHosts(options),
    connect: async (host, port) => {
      const name = host.includes(":") ? `[${host}]` : host;
      const limits = { timeout: CONNECT_TIMEOUT, maxMessage: ways.maxMessage };
      return ways.over(await connectWebSocket(`ws://${name}:${port}${PAGES_PATH}`, limits));
    },
    onEvent,
  });
  return {
    name: "decode",
    lines: [...ways.lines, `Decode: prompts come from ${shownHosts(options)}`],
    over: (engine) =>
      layerOver(engine, {
        generate: (request) => decoded(engine as TravelEngine, rooms, request),
      }),
    counts: () => ({ ...rooms.counts, ...wireFigures(rooms.figures) }),
    close: async () => {
      rooms.close();
      ways.close();
    },
  };
}

/** By the names of the wire. */
function wireFigures(figures: RoomFigures) {
  const { bytes, seconds } = figures.last;
  return {
    opened: figures.opened,
    failed: figures.failed,
    failed_before_transfer: figures.failedBefore,
    failures: { ...figures.failures },
    pages: figures.pages,
    page_bytes: figures.pageBytes,
    transfers: figures.transfers,
    transfer_seconds: figures.transferSeconds,
    kv_transfer_speed_gb_s: seconds === 0 ? 0 : bytes / seconds / 1e9,
    kv_transfer_latency_ms: 1000 * seconds,
  };
}

function heartbeatOf({ disaggregationHeartbeatInterval }: DisaggregationOptions) {
  return { interval: 1000 * disaggregationHeartbeatInterval, misses: MISSES };
}

function shownHosts(options: DisaggregationOptions): string {
  const own = options.disaggregationBootstrapPort;
  const shown = knownHosts(options).map(({ host, port = own }) => {
    return `${host.includes(":") ? `[${host}]` : host}:${port}`;
  });
  return shown.join(", ");
}

/** Bytes that pages take in one message at most, whatever the other server's page size. */
function maxFrame(layout: SharedLayout): number {
  const largest = { ...layout, pageSize: MAX_PAGE_SIZE };
  const parts = ownersOf(layout.shares ?? UNSHARED).length;
  const onePage = parts * packedSizes(largest, 1).at(-1)!;
  return FRAME_HEADER_BYTES + onePage + MAX_PAGE_BYTES;
}
