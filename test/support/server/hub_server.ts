/**
 * A model hub on this machine, with the faults that tests ask for: a list of files, the files, and a
 * store at another address to which large files are redirected.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** One request, as the server saw it. */
export interface HubHit {
  readonly kind: "list" | "file" | "store";
  readonly method: string;
  /** Of the file; empty for the list. */
  readonly name: string;
  readonly range: string | undefined;
  readonly ifRange: string | undefined;
  readonly authorization: string | undefined;
  /** How many like it came before: same kind and name. */
  readonly nth: number;
}

export interface HubReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** The connection breaks after as many bytes of the body. */
  readonly cutAfter?: number;
  /** Nothing comes after as many bytes of the body. */
  readonly stallAfter?: number;
}

export interface HubModel {
  readonly id: string;
  readonly commit: string;
  readonly files: ReadonlyMap<string, Uint8Array>;
}

export interface HubServerOptions {
  /** Wanted with every request to the hub. */
  readonly token?: string;
  /** Large files come from the hub itself. Default false. */
  readonly withoutStore?: boolean;
  /** The list tells names only. Default false. */
  readonly plainList?: boolean;
  /** Makes another answer of the right one. */
  readonly change?: (hit: HubHit, reply: HubReply) => HubReply;
}

export interface HubServer {
  readonly url: string;
  /** Address of the store. */
  readonly storeUrl: string;
  readonly hits: readonly HubHit[];
  close(): Promise<void>;
}

export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

export function gitSha1(bytes: Uint8Array): string {
  return createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex");
}

export function isLarge(name: string): boolean {
  return /\.(safetensors|bin|gguf)$/.test(name);
}

/** What the hub calls a file, and names of blobs are made of. */
export function digestOf(name: string, bytes: Uint8Array): string {
  return isLarge(name) ? sha256(bytes) : gitSha1(bytes);
}

/** Serves one model, at main and at its commit, at free ports of 127.0.0.1. */
export async function serveHub(
  model: HubModel,
  options: HubServerOptions = {},
): Promise<HubServer> {
  const hits: HubHit[] = [];
  const answer = (reply: (hit: HubHit, path: string) => HubReply) => {
    return (request: IncomingMessage, response: ServerResponse) => {
      const path = decodeURIComponent(request.url ?? "");
      const kind = path.startsWith("/api/")
        ? "list"
        : path.startsWith("/store/")
          ? "store"
          : "file";
      const name = kind === "list" ? "" : path.replace(/\?.*$/, "").replace(/^.*\//, "");
      const nth = hits.filter((hit) => hit.kind === kind && hit.name === name).length;
      const { range, authorization, "if-range": ifRange } = request.headers;
      const method = request.method ?? "";
      const hit = {
        kind,
        method,
        name,
        range,
        ifRange: ifRange as string,
        authorization,
        nth,
      } as const;
      hits.push(hit);
      const right = reply(hit, path);
      send(response, options.change?.(hit, right) ?? right, method === "HEAD");
    };
  };
  const store = await listen(createServer(answer((hit) => fileReply(model, hit, {}))));
  const hub = await listen(
    createServer(
      answer((hit, path) => hubReply(model, hit, { ...options, path, store: store.url })),
    ),
  );
  const close = async () => {
    await Promise.all([hub.close(), store.close()]);
  };
  return { url: hub.url, storeUrl: store.url, hits, close };
}

interface HubContext extends HubServerOptions {
  readonly path: string;
  readonly store: string;
}

function hubReply(model: HubModel, hit: HubHit, context: HubContext): HubReply {
  const { token, path } = context;
  if (token !== undefined && hit.authorization !== `Bearer ${token}`) return plain(401);
  if (hit.kind === "list") {
    const match = /^\/api\/models\/(.+)\/revision\/([^?]+)\?blobs=true$/.exec(path);
    if (match?.[1] !== model.id) return plain(404, { "x-error-code": "RepoNotFound" });
    const isKnown = ["main", model.commit].includes(match[2]!);
    if (!isKnown) return plain(404, { "x-error-code": "RevisionNotFound" });
    return listReply(model, context);
  }
  const bytes = model.files.get(hit.name);
  if (bytes === undefined || !path.startsWith(`/${model.id}/resolve/${model.commit}/`)) {
    return plain(404, { "x-error-code": "EntryNotFound" });
  }
  const own = { "x-repo-commit": model.commit };
  if (!isLarge(hit.name) || context.withoutStore) return fileReply(model, hit, own);
  const headers = {
    ...own,
    "x-linked-etag": `"${sha256(bytes)}"`,
    "x-linked-size": String(bytes.length),
    location: `${context.store}/store/${hit.name}`,
  };
  return { ...plain(302), headers };
}

function listReply({ id, commit, files }: HubModel, { plainList }: HubServerOptions): HubReply {
  const siblings = [...files].map(([rfilename, bytes]) => {
    if (plainList) return { rfilename };
    const size = bytes.length;
    // A large file's git blob is its pointer.
    const blobId = isLarge(rfilename) ? "f".repeat(40) : gitSha1(bytes);
    const lfs = isLarge(rfilename)
      ? { lfs: { sha256: sha256(bytes), size, pointerSize: 135 } }
      : {};
    return { rfilename, size, blobId, ...lfs };
  });
  const headers = { "content-type": "application/json" };
  const body = new TextEncoder().encode(JSON.stringify({ id, sha: commit, siblings }));
  return { status: 200, headers, body };
}

function fileReply(model: HubModel, hit: HubHit, own: HubReply["headers"]): HubReply {
  const bytes = model.files.get(hit.name);
  if (bytes === undefined) return plain(404);
  // A store's tags are its own, as for uploads in parts.
  const etag =
    hit.kind === "store" ? `"${sha256(bytes).slice(0, 32)}-3"` : `"${digestOf(hit.name, bytes)}"`;
  const headers = { ...own, etag };
  const match = /^bytes=(\d+)-$/.exec(hit.range ?? "");
  if (match === null || (hit.ifRange !== undefined && hit.ifRange !== etag)) {
    return { status: 200, headers, body: bytes };
  }
  const start = Number(match[1]);
  const range = `bytes ${start}-${bytes.length - 1}/${bytes.length}`;
  return {
    status: 206,
    headers: { ...headers, "content-range": range },
    body: bytes.subarray(start),
  };
}

/** An answer without more to it than its status. */
export function plain(status: number, headers: HubReply["headers"] = {}): HubReply {
  return { status, headers, body: new TextEncoder().encode(`status ${status}`) };
}

function send(response: ServerResponse, reply: HubReply, bodyless: boolean): void {
  const { status, headers, body, cutAfter, stallAfter } = reply;
  response.writeHead(status, { "content-length": body.length, ...headers });
  const sent = cutAfter ?? stallAfter;
  if (bodyless) response.end();
  else if (sent === undefined) response.end(body);
  else if (sent === 0) response.flushHeaders();
  else response.write(body.subarray(0, sent));
  // Later, so that what was written arrives.
  if (cutAfter !== undefined) setTimeout(() => response.destroy(), 10);
}

async function listen(server: Server): Promise<{ url: string; close(): Promise<void> }> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}
