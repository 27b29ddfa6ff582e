/**
 * Images at addresses of the internet, of hosts that are listed.
 *
 * A client must not reach through this server what it could not reach itself. So every address that a
 * host's name stands for is looked at, at the first request and behind each redirect, and the
 * connection goes to one of those and to no other, whatever the name stands for by then.
 *
 * @module
 */
import { lookup } from "node:dns/promises";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { InvalidRequestError } from "../../errors.ts";
import { MAX_IMAGE_BYTES, refuseImage } from "../../images/pixels.ts";
import type { MediaAccess, MediaOptions } from "../../server/media.ts";
import { joined } from "./local_media.ts";
import { isPublicAddress } from "./public_address.ts";

/** Redirects of one image. */
export const MAX_MEDIA_REDIRECTS = 3;
/** From the first name that is looked up to the last byte. */
export const MAX_MEDIA_SECONDS = 10;
/** Characters of an address. */
export const MAX_MEDIA_URL = 4096;

export interface MediaUrlOptions {
  /** Hosts that may be asked, at the ports of their schemes, or `host:port`. */
  readonly domains: readonly string[];
  /** All addresses of a name. Default: the system's. */
  readonly resolve?: (host: string) => Promise<readonly string[]>;
  /** Whether a server may be asked at an address. Default `isPublicAddress`. */
  readonly isAllowed?: (address: string) => boolean;
  /** Default `MAX_MEDIA_SECONDS`. */
  readonly seconds?: number;
}

type Setting = Required<MediaUrlOptions>;

export function mediaUrls(options: MediaUrlOptions): NonNullable<MediaAccess["fetch"]> {
  const setting = {
    resolve: systemAddresses,
    isAllowed: (address: string) => isPublicAddress(address),
    seconds: MAX_MEDIA_SECONDS,
    ...options,
  };
  return async (text, asked) => {
    const deadline = AbortSignal.timeout(setting.seconds * 1000);
    const signal = AbortSignal.any([asked.signal, deadline]);
    try {
      return await fetchImage(text, setting, { ...asked, signal });
    } catch (cause) {
      if (deadline.aborted && !asked.signal.aborted) {
        const state = `it has not come within ${setting.seconds} seconds`;
        throw new InvalidRequestError(`Cannot read the image: ${state}`, undefined, { cause });
      }
      throw cause;
    }
  };
}

async function systemAddresses(host: string): Promise<readonly string[]> {
  const all = await lookup(host, { all: true, verbatim: true });
  return all.map(({ address }) => address);
}

async function fetchImage(
  text: string,
  setting: Setting,
  options: MediaOptions,
): Promise<Uint8Array> {
  let url = allowedUrl(text, undefined, setting);
  for (let redirects = 0; ; redirects++) {
    const address = await addressOf(url, setting, options.signal);
    const response = await ask(url, address, options.signal);
    try {
      const { statusCode = 0, headers } = response;
      if (statusCode < 300 || statusCode > 399) return await bodyOf(response, options);
      if (headers.location === undefined) refuseImage(`its server answers ${statusCode}`);
      if (redirects === MAX_MEDIA_REDIRECTS) {
        refuseImage(`it is more than ${MAX_MEDIA_REDIRECTS} redirects away`);
      }
      url = allowedUrl(headers.location, url, setting);
    } finally {
      response.destroy();
    }
  }
}

/** @param base What redirects there. */
function allowedUrl(text: string, base: URL | undefined, { domains }: Setting): URL {
  if (text.length > MAX_MEDIA_URL) refuseImage(`its URL has over ${MAX_MEDIA_URL} characters`);
  const parsed = URL.canParse(text, base) ? new URL(text, base) : undefined;
  const where = base === undefined ? "its URL" : "it redirects to a URL that";
  if (parsed === undefined) return refuseImage(`${where} is none`);
  const { protocol, username, password, host, hostname } = parsed;
  if (protocol !== "https:" && protocol !== "http:") {
    refuseImage(
      `${where} has the scheme ${protocol.slice(0, 20)}, only http and https are fetched`,
    );
  }
  if (base?.protocol === "https:" && protocol === "http:") {
    refuseImage("it redirects from https to http");
  }
  if (username !== "" || password !== "") refuseImage(`${where} has a user in it`);
  // Without a port, it is the scheme's.
  if (domains.some((one) => one.toLowerCase() === host)) return parsed;
  return refuseImage(
    `${where} has the host ${hostname.slice(0, 100)}, which --allowed-media-domains does not list`,
  );
}

/** One of the addresses of a host, of which none may be private. */
async function addressOf(
  { hostname }: URL,
  { resolve, isAllowed }: Setting,
  signal: AbortSignal,
): Promise<string> {
  const literal = hostname.replace(/^\[|\]$/g, "");
  const addresses = isIP(literal)
    ? [literal]
    : await untilAborted(named(hostname, resolve), signal);
  const [first] = addresses;
  if (first === undefined) refuseImage(`the host ${hostname} has no address`);
  // A name that stands for a private address beside others is as little to be trusted.
  if (!addresses.every(isAllowed)) {
    refuseImage(`the host ${hostname} stands for an address that is not public`);
  }
  return first;
}

async function named(hostname: string, resolve: Setting["resolve"]): Promise<readonly string[]> {
  try {
    return await resolve(hostname);
  } catch (cause) {
    return refuseImage(`the host ${hostname} is not found`, { cause });
  }
}

function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((done, fail) => {
    const stop = () => fail(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    work.then(done, fail).finally(() => signal.removeEventListener("abort", stop));
  });
}

/** The head of an answer from that address. */
function ask(url: URL, address: string, signal: AbortSignal): Promise<IncomingMessage> {
  const family = isIP(address);
  // The name is not asked for again: it may stand for another address by now.
  const pinned: LookupFunction = (_, options, done) => {
    if (options.all) done(null, [{ address, family }]);
    else done(null, address, family);
  };
  const request = url.protocol === "https:" ? requestHttps : requestHttp;
  return new Promise((done, fail) => {
    const sent = request(
      url,
      {
        // A connection that another request left open might be to another address.
        agent: false,
        lookup: pinned,
        signal,
        headers: { accept: "image/*", "accept-encoding": "identity", "user-agent": "wisp" },
      },
      done,
    );
    sent.on("error", (cause) => {
      if (signal.aborted) return fail(cause);
      const state = `the host ${url.hostname} does not answer (${problemOf(cause)})`;
      fail(new InvalidRequestError(`Cannot read the image: ${state}`, undefined, { cause }));
    });
    sent.end();
  });
}

/** Whether the platform says it, and not who reads. */
const isOfStream = (error: unknown): error is Error =>
  error instanceof Error && /^(E[A-Z]+|ERR_|HPE_)/.test(problemOf(error));

const problemOf = (error: Error): string => (error as NodeJS.ErrnoException).code ?? "no answer";

async function bodyOf(response: IncomingMessage, options: MediaOptions): Promise<Uint8Array> {
  const { statusCode, headers } = response;
  if (statusCode !== 200) refuseImage(`its server answers ${statusCode}`);
  const coding = headers["content-encoding"] ?? "identity";
  if (coding !== "identity") refuseImage(`it comes in the coding ${coding.slice(0, 40)}`);
  const announced = Number(headers["content-length"] ?? 0);
  if (announced > MAX_IMAGE_BYTES)
    refuseImage(`${announced} bytes are more than ${MAX_IMAGE_BYTES}`);
  const pieces: Uint8Array[] = [];
  let total = 0;
  try {
    for await (const piece of response as AsyncIterable<Uint8Array>) {
      total += piece.length;
      if (total > MAX_IMAGE_BYTES) refuseImage(`it has more than ${MAX_IMAGE_BYTES} bytes`);
      options.onBytes(piece.length);
      pieces.push(piece);
    }
  } catch (cause) {
    if (options.signal.aborted || !isOfStream(cause)) throw cause;
    refuseImage(`its server ends before it does (${problemOf(cause)})`, { cause });
  }
  if (total < announced) refuseImage("its server ends before it does");
  return joined(pieces, total);
}
