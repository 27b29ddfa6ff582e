/**
 * A prefill server's end of pages that go by UCX, as a process of its own: it sends what its parent asks
 * it for.
 *
 * @module
 */
import { once } from "node:events";
import type { Channel } from "../../src/disaggregation/channel.ts";
import { MAX_PAGE_BYTES } from "../../src/disaggregation/limits.ts";
import { PrefillRooms } from "../../src/disaggregation/prefill_rooms.ts";
import { listenForDecode } from "../../src/node/disaggregation/bootstrap_server.ts";
import { UcxChannel } from "../../src/node/ucx/ucx_channel.ts";
import { UcxLibrary } from "../../src/node/ucx/ucx_library.ts";

export const KEY = "the key of both";
export const PAGE_BYTES = 16 * 1024;
export const LAYOUT = {
  ...{ modelHash: "m", numerics: "{}", dtype: "bf16" as const },
  ...{ entryWidth: 576, pageSize: 64, layers: 61 },
};
/** Longer than a test has. */
const LONG = 600_000;
export const TIMES = {
  ...{ openTimeout: LONG, takeTimeout: LONG, connectTimeout: LONG, waitTimeout: LONG },
  heartbeat: { interval: LONG, misses: 3 },
};
export const promptOf = (pageCount: number) => ({
  ...{ tokens: [1, 2, 3], pageSize: LAYOUT.pageSize, pageCount },
});

/** Byte of all of a page. */
export const byteOf = (room: number, page: number): number => (31 * room + page) % 251;

export const overUcx = (channel: Channel, ucx: UcxLibrary): Channel =>
  new UcxChannel(channel, { ucx, isRequired: true, maxMessage: 2 * MAX_PAGE_BYTES });

/** Pages of a room to be sent, so many in a message; or that the parent wants to know what is left. */
export type Asked =
  | { readonly room: number; readonly pages: number; readonly together: number }
  | "what is left";

export interface Left {
  readonly rooms: number;
  readonly frames: number;
  readonly servers: number;
  /** Bytes of the process. */
  readonly memory: number;
}

async function send(
  rooms: PrefillRooms,
  { room, pages, together }: Exclude<Asked, string>,
): Promise<void> {
  const from = rooms.open(String(room));
  // A decode server that leaves ends it.
  from.over.catch(() => {});
  try {
    for (let page = await from.begin(promptOf(pages)); page < pages; page += together) {
      const count = Math.min(together, pages - page);
      const bytes = new Uint8Array(count * PAGE_BYTES);
      for (let i = 0; i < count; i++) {
        bytes.fill(byteOf(room, page + i), i * PAGE_BYTES, (i + 1) * PAGE_BYTES);
      }
      await from.take({ first: page, count, bytes });
    }
    from.computed(undefined);
    from.end(0);
    await from.over;
  } catch {
    // It has left.
  }
}

/** Of a process with a channel to its parent and `--expose-gc`. */
export async function main(): Promise<number> {
  const ucx = await UcxLibrary.open("lo");
  const rooms = new PrefillRooms({ layout: LAYOUT, key: KEY, times: TIMES });
  const server = await listenForDecode({
    ...{ host: "127.0.0.1", port: 0, takesPages: false },
    accept: (channel) => rooms.accept(overUcx(channel, ucx)),
  });
  process.on("message", (asked: Asked) => {
    if (asked !== "what is left") return void send(rooms, asked);
    (globalThis as { gc?: () => void }).gc!();
    process.send!({ ...rooms.counts, memory: process.memoryUsage.rss() });
  });
  process.send!(server.port);
  await once(process, "disconnect");
  rooms.close();
  await server.close();
  ucx.close();
  return 0;
}
