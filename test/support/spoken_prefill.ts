/**
 * Rooms of a decode server, and a prefill server's end for which a test speaks.
 *
 * @module
 */
import type { Channel, ChannelMessage } from "../../src/disaggregation/channel.ts";
import { DecodeRooms } from "../../src/disaggregation/decode_rooms.ts";
import { proofOf } from "../../src/disaggregation/handshake.ts";
import type { HeartbeatOptions } from "../../src/disaggregation/heartbeat.ts";
import { PROTOCOL_VERSION } from "../../src/disaggregation/messages.ts";
import { channelPair } from "./exactness/apart.ts";

export const SPOKEN_LAYOUT = {
  ...{ modelHash: "m", numerics: "{}", dtype: "bf16" as const, entryWidth: 2, layers: 1 },
  pageSize: 4,
};
const TIMES = { connectTimeout: 5000, waitTimeout: 5000 };

export interface SpokenPrefill {
  readonly rooms: DecodeRooms;
  /** What the decode server has said, of all connections. */
  readonly said: readonly Readonly<Record<string, unknown>>[];
  /** How many connections there were. */
  readonly connections: () => number;
  readonly send: (message: ChannelMessage) => void;
  readonly say: (message: object) => void;
  /** Ends the newest connection. */
  readonly cut: (reason: string) => void;
}

/** @param ready What it says at the meeting beside what it should. */
export function spokenPrefill(
  ready: object = {},
  heartbeat: HeartbeatOptions = { interval: 10_000, misses: 3 },
): SpokenPrefill {
  const said: Record<string, unknown>[] = [];
  let connections = 0;
  let channel!: Channel;
  const send = (message: ChannelMessage) => channel.send(message);
  const say = (message: object) => send(JSON.stringify(message));
  const answer = (text: string) => {
    const message = JSON.parse(text) as Record<string, unknown>;
    said.push(message);
    if (message.type === "hello") {
      const proof = proofOf("k", "prefill", { decode: String(message.nonce), prefill: "n" });
      say({ type: "welcome", version: PROTOCOL_VERSION, nonce: "n", proof });
    }
    if (message.type === "proof") {
      const { pageSize } = SPOKEN_LAYOUT;
      const alone = { way: "", isWhole: true, pageSize, hasReplicas: false };
      say({ type: "ready", ...alone, ...ready });
    }
  };
  const rooms = new DecodeRooms({
    ...{ layout: SPOKEN_LAYOUT, key: "k", port: 1, hosts: [{ host: "p" }] },
    times: { ...TIMES, heartbeat },
    connect: async () => {
      const [own, other] = channelPair();
      connections += 1;
      channel = other;
      other.listen({ onMessage: (message) => answer(message as string), onClose: () => {} });
      return own;
    },
  });
  return {
    ...{ rooms, said, send, say },
    connections: () => connections,
    cut: (reason) => channel.close(reason),
  };
}
