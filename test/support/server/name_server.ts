/**
 * A name server on this machine, whose answers a test chooses, and a resolver that asks it.
 *
 * @module
 */
import { createSocket } from "node:dgram";
import { Resolver } from "node:dns/promises";
import { once } from "node:events";
import type { AddressInfo } from "node:net";

const TYPES = { 1: 4, 28: 6 } as const;
const HEADER = 12;

export interface NameServer {
  /** All addresses of a name, as the server answers now. */
  resolve(host: string): Promise<readonly string[]>;
  close(): void;
}

/** @param answer Addresses of a name; undefined where there is no such name. */
export async function startNameServer(
  answer: (host: string) => readonly string[] | undefined,
): Promise<NameServer> {
  const socket = createSocket("udp4");
  socket.on("message", (query, { port, address }) =>
    socket.send(replyTo(query, answer), port, address),
  );
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  const { port } = socket.address() as AddressInfo;
  const resolver = new Resolver({ timeout: 2000, tries: 1 });
  resolver.setServers([`127.0.0.1:${port}`]);
  return {
    async resolve(host) {
      const none = (error: NodeJS.ErrnoException) => {
        if (error.code === "ENODATA") return [];
        throw error;
      };
      const v4 = await resolver.resolve4(host).catch(none);
      return [...v4, ...(await resolver.resolve6(host).catch(none))];
    },
    close: () => socket.close(),
  };
}

function replyTo(query: Buffer, answer: (host: string) => readonly string[] | undefined): Buffer {
  const labels: string[] = [];
  let at = HEADER;
  for (let length = query[at]!; length > 0; length = query[at]!) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  const type = query.readUInt16BE(at + 1);
  const question = query.subarray(HEADER, at + 5);
  const all = answer(labels.join("."));
  const family = TYPES[type as keyof typeof TYPES];
  const records = (all ?? [])
    .filter((address) => (address.includes(":") ? 6 : 4) === family)
    .map((address) => record(type, bytesOf(address)));
  const header = Buffer.alloc(HEADER);
  query.copy(header, 0, 0, 2);
  header.writeUInt16BE(all === undefined ? 0x8183 : 0x8180, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(records.length, 6);
  return Buffer.concat([header, question, ...records]);
}

function record(type: number, data: Buffer): Buffer {
  // The name is the question's, and the resolver may not keep the answer.
  const head = Buffer.from([0xc0, HEADER, 0, type, 0, 1, 0, 0, 0, 0, 0, data.length]);
  return Buffer.concat([head, data]);
}

function bytesOf(address: string): Buffer {
  if (!address.includes(":")) return Buffer.from(address.split(".").map(Number));
  const [front = "", back = ""] = address.split("::");
  const words = (part: string) =>
    part
      .split(":")
      .filter(Boolean)
      .map((word) => Number.parseInt(word, 16));
  const [first, last] = [words(front), words(back)];
  const all = [...first, ...new Array<number>(8 - first.length - last.length).fill(0), ...last];
  return Buffer.from(all.flatMap((word) => [word >> 8, word & 255]));
}
