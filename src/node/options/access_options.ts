/**
 * Options for who may use a server, and what it says about that.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import { EVERY_ORIGIN, isOrigin } from "../../http/origins.ts";
import type { AppOptions } from "../../server/app.ts";
import { checkKeys } from "../../server/guard/auth.ts";
import { isAllowedHost, isLoopback } from "../../server/guard/hosts.ts";
import { SOCKET_LIMITS } from "../serve/socket_limits.ts";
import { OptionError, type OptionTable, type OptionValues } from "./option_parser.ts";

const ACCESS = "Access";

export const ACCESS_OPTIONS = {
  apiKey: {
    flags: ["--api-key"],
    kind: "string",
    value: "KEY",
    defaultText: "none: every client that reaches the server may use it",
    help: "ask for the header Authorization: Bearer KEY, or x-api-key: KEY, on every path but /health, /health_generate, /metrics and the files of the page at /",
    group: ACCESS,
  },
  adminApiKey: {
    flags: ["--admin-api-key"],
    kind: "string",
    value: "KEY",
    defaultText: "that of --api-key",
    help: "ask for this key at /abort_request, /flush_cache, /start_profile and /stop_profile; it opens everything else too",
    group: ACCESS,
  },
  allowedOrigins: {
    flags: ["--allowed-origins"],
    kind: "strings",
    value: "ORIGIN",
    defaultText: "the server's own",
    help: "pages that may use the server from a browser, such as https://example.org; * is every page. The server refuses pages of other origins; programs that are no browsers have none",
    group: ACCESS,
  },
  allowedHosts: {
    flags: ["--allowed-hosts"],
    kind: "strings",
    value: "NAME",
    defaultText: "localhost and addresses in numbers",
    help: "names by which clients ask for a server without a key, such as that of the proxy before it; * is every name. Where only this machine reaches the server it refuses requests by other names, else those of browsers",
    group: ACCESS,
  },
  maxRequestSize: {
    flags: ["--max-request-size"],
    kind: "bytes",
    value: "BYTES",
    min: 1,
    defaultText: "64M",
    help: "size of a request's body at most; larger ones are refused with 413",
    group: ACCESS,
  },
  requestMemory: {
    flags: ["--request-memory"],
    kind: "bytes",
    value: "BYTES",
    min: 1,
    defaultText: "512M",
    help: "memory that the bodies of all requests may take together while they are read, parsed and answered; a request that finds no room is refused with 503, one that never would with 413",
    group: ACCESS,
  },
  sendTimeout: {
    flags: ["--send-timeout"],
    kind: "number",
    value: "SECONDS",
    min: 1,
    default: SOCKET_LIMITS.sendTime / 1000,
    help: "how long a client may take nothing of an answer that is there; then the server closes its connection, and its request ends",
    group: ACCESS,
  },
} as const satisfies OptionTable;

export type AccessOptions = OptionValues<typeof ACCESS_OPTIONS>;

/** Of them those that say who may use a server, or a router. */
type Clients = Pick<AccessOptions, "apiKey" | "adminApiKey" | "allowedOrigins" | "allowedHosts">;

/** @throws {OptionError} for a key that no request could show, and for what is no origin. */
export function requireUsableAccess(options: Clients): void {
  try {
    checkKeys(options);
  } catch (cause) {
    if (!(cause instanceof InvalidRequestError)) throw cause;
    const name = cause.field as "apiKey" | "adminApiKey";
    const message = cause.message.replace(name, `option ${ACCESS_OPTIONS[name].flags[0]}`);
    throw new OptionError(message, { cause });
  }
  requireEach(options, "allowedOrigins", isOrigin, "it is no origin, such as https://example.org");
  const problem = "it is no name of a host, such as example.org, without scheme and port";
  requireEach(options, "allowedHosts", isAllowedHost, problem);
}

function requireEach(
  options: Clients,
  key: "allowedOrigins" | "allowedHosts",
  isRight: (text: string) => boolean,
  problem: string,
): void {
  const wrong = options[key]?.find((text) => !isRight(text));
  if (wrong === undefined) return;
  throw new OptionError(`Cannot use option ${ACCESS_OPTIONS[key].flags[0]} ${wrong}: ${problem}`);
}

/** The part of the app's options that these are. */
export type AccessOfApp = Pick<
  AppOptions,
  | "apiKey"
  | "adminApiKey"
  | "allowedOrigins"
  | "allowedHosts"
  | "listensOn"
  | "maxBodyBytes"
  | "requestMemory"
>;

/** @param host What the server listens on. */
export function accessOf(options: AccessOptions, host: string): AccessOfApp {
  const { apiKey, adminApiKey, allowedOrigins, allowedHosts } = options;
  const { maxRequestSize, requestMemory } = options;
  return {
    apiKey,
    adminApiKey,
    allowedOrigins,
    allowedHosts,
    listensOn: host,
    ...(maxRequestSize !== undefined && { maxBodyBytes: maxRequestSize }),
    ...(requestMemory !== undefined && { requestMemory }),
  };
}

/** Who may use the server, as a sentence for its log. */
export function describeAccess(
  { apiKey, allowedOrigins }: Clients,
  host: string,
): { readonly isOpen: boolean; readonly text: string } {
  if (apiKey !== undefined) {
    return { isOpen: false, text: "Clients must show the key of --api-key" };
  }
  const ask = "--api-key asks for a key";
  if (!isLoopback(host)) {
    return { isOpen: true, text: `every client that reaches ${host} may use this server: ${ask}` };
  }
  if (allowedOrigins?.includes(EVERY_ORIGIN)) {
    const text = "every page that a browser on this machine shows may use this server";
    return { isOpen: true, text: `${text}: ${ask}` };
  }
  const pages =
    allowedOrigins === undefined
      ? "pages of other origins in its browsers may not"
      : `of the pages in its browsers only those of ${allowedOrigins.join(", ")}`;
  const text = `No key is asked for: programs on this machine may use the server, ${pages}`;
  return { isOpen: false, text };
}

/** The values of options by the names of the wire, without those that are secrets. */
export function describeOptions(
  table: OptionTable,
  options: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const secrets: readonly string[] = ["apiKey", "adminApiKey", "disaggregationKey", "help"];
  return Object.fromEntries(
    Object.entries(table)
      .filter(([key]) => !secrets.includes(key))
      .map(([key, { flags }]) => [wireName(flags[0]), options[key] ?? null]),
  );
}

const wireName = (flag: string): string => flag.slice(2).replaceAll("-", "_");
