/**
 * By which names the server may be asked for. Without a key, a page of a stranger could otherwise
 * make its own name lead to this machine, and would then be of the server's own origin.
 *
 * @module
 */
import type { MiddlewareHandler } from "hono";
import { InvalidRequestError } from "../../errors.ts";
import { errorResponse, HttpError } from "../../http/error_response.ts";
import { mayBeOfPage } from "./browser.ts";

export interface HostOptions {
  /**
   * Names by which clients ask for the server, without a port; `*` is every name. Addresses in
   * numbers, `localhost` and names below it, and `listensOn` are always right. Default: no others.
   */
  readonly allowedHosts?: readonly string[] | undefined;
  /**
   * The address that the server listens on. Where only this machine reaches it, every request must
   * ask by a right name, else those of browsers. Default: not known.
   */
  readonly listensOn?: string | undefined;
  /** With a key nothing is checked: a page that has none gets nowhere by any name. */
  readonly apiKey?: string | undefined;
}

/** Stands for every name, in a list of them. */
const EVERY_HOST = "*";

/** Characters of a name that a refusal repeats. */
const SHOWN_NAME = 100;

/** Whether it may stand in a list of allowed names. */
export function isAllowedHost(text: string): boolean {
  return text === EVERY_HOST || isHostName(text);
}

/** @throws {InvalidRequestError} for what is no name of a host. */
function checkHosts(hosts: readonly string[]): void {
  const field = "allowedHosts";
  const wrong = hosts.find((host) => !isAllowedHost(host));
  if (wrong === undefined) return;
  const rule = 'names of hosts such as "example.org", without scheme and port, or "*"';
  throw new InvalidRequestError(`${field} must be ${rule}, got ${JSON.stringify(wrong)}`, field);
}

/** @throws {InvalidRequestError} for what is no name of a host in the list of allowed ones. */
export function requireKnownHost(options: HostOptions): readonly MiddlewareHandler[] {
  const { allowedHosts = [], listensOn, apiKey } = options;
  checkHosts(allowedHosts);
  if (apiKey !== undefined || allowedHosts.includes(EVERY_HOST)) return [];
  const names = [...allowedHosts, ...(listensOn === undefined ? [] : [listensOn])];
  const known = new Set(names.map((name) => nameOf(name) ?? name));
  const isLocal = listensOn !== undefined && isLoopback(listensOn);
  return [
    async ({ req }, next) => {
      if (!isLocal && !mayBeOfPage(req.raw.headers)) return next();
      const host = hostOf(req.raw);
      const name = nameOf(host);
      if (name !== undefined && (known.has(name) || isSafe(name))) return next();
      const shown = (name ?? host).slice(0, SHOWN_NAME);
      const problem = `the server does not go by the name ${shown}; --allowed-hosts gives it names`;
      const message = `Cannot ${req.method} ${req.path}: ${problem}`;
      return errorResponse(new HttpError("forbidden", message));
    },
  ];
}

/** What a request asks for, with its port: a service worker's has no such header. */
export function hostOf(request: Request): string {
  return request.headers.get("host") ?? new URL(request.url).host;
}

/** Whether only this machine reaches a server that listens there. */
export function isLoopback(address: string): boolean {
  const name = nameOf(address.includes(":") ? `[${address}]` : address) ?? "";
  return name === "localhost" || name === "[::1]" || /^127(\.\d+){3}$|^\[::ffff:7f/.test(name);
}

/** Whether it is a name alone, as a request can have it: without a scheme, a port or a path. */
function isHostName(text: string): boolean {
  return !text.includes("*") && nameOf(text) === text.toLowerCase().replace(/\.$/, "");
}

/** As URLs write it, without its port and the root's dot; undefined where it is no name of a host. */
function nameOf(host: string): string | undefined {
  const url = `http://${host.includes("::") && !host.startsWith("[") ? `[${host}]` : host}/`;
  if (/[\s@/?#\\]/.test(host) || !URL.canParse(url)) return undefined;
  const name = new URL(url).hostname.replace(/\.$/, "");
  return name === "" ? undefined : name;
}

/** No name server has a say in what these lead to. */
function isSafe(name: string): boolean {
  const isAddress = name.startsWith("[") || /^\d+\.\d+\.\d+\.\d+$/.test(name);
  return isAddress || name === "localhost" || name.endsWith(".localhost");
}
