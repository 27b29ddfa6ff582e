/**
 * Servers of images on this machine: one that may be asked, at an address that stands for a public one,
 * and at the same port of others the ones that no client may reach.
 *
 * @module
 */
import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type MediaUrlOptions, mediaUrls } from "../../../src/node/media/media_urls.ts";
import { isPublicAddress } from "../../../src/node/media/public_address.ts";
import type { MediaAccess } from "../../../src/server/media.ts";
import { type NameServer, startNameServer } from "./name_server.ts";

/** Stands for an address of the internet. */
export const PUBLIC = "127.0.0.2";
const FORBIDDEN = ["127.0.0.1", "127.0.0.3"];

export const IMAGE = Uint8Array.from([1, 2, 3, 4, 5]);

/** What the public server answers at a path. */
export type Answer = (response: ServerResponse, servers: MediaServers) => void;

export interface MediaServers {
  readonly port: number;
  /** Requests that the forbidden ones have seen. */
  readonly reached: string[];
  /** Addresses of names, for each time that they are asked for; the last one stays. */
  readonly names: Map<string, (readonly string[])[]>;
  readonly paths: Map<string, Answer>;
  /** What fetches from the listed hosts, which are at that port. */
  fetchFrom(
    domains: readonly string[],
    options?: Partial<MediaUrlOptions>,
  ): NonNullable<MediaAccess["fetch"]>;
  close(): Promise<void>;
}

export async function startMediaServers(): Promise<MediaServers> {
  const reached: string[] = [];
  const names = new Map<string, (readonly string[])[]>();
  const paths = new Map<string, Answer>();
  const open = createServer((request, response) => {
    const answer = paths.get(request.url!);
    if (answer === undefined) response.writeHead(404).end();
    else answer(response, servers);
  });
  open.listen(0, PUBLIC);
  await once(open, "listening");
  const { port } = open.address() as AddressInfo;
  const closed = await Promise.all(
    FORBIDDEN.map(async (address) => {
      const server = createServer((request, response) => {
        reached.push(`${address}${request.url}`);
        response.end(IMAGE);
      });
      server.listen(port, address);
      await once(server, "listening");
      return server;
    }),
  );
  const nameServer: NameServer = await startNameServer((host) => {
    const answers = names.get(host);
    return answers !== undefined && answers.length > 1 ? answers.shift() : answers?.[0];
  });
  const servers: MediaServers = {
    port,
    reached,
    names,
    paths,
    fetchFrom: (domains, options) =>
      mediaUrls({
        domains: domains.map((domain) => `${domain}:${port}`),
        resolve: (host) => nameServer.resolve(host),
        isAllowed: (address) => address === PUBLIC || isPublicAddress(address),
        seconds: 2,
        ...options,
      }),
    async close() {
      nameServer.close();
      await Promise.all([open, ...closed].map(closeServer));
    },
  };
  return servers;
}

async function closeServer(server: Server): Promise<void> {
  server.close();
  server.closeAllConnections();
  await once(server, "close");
}
