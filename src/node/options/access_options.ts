/**
 * Options for who may use a server, and what it says about that.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import type { AppOptions } from "../../server/app.ts";
import { checkKeys } from "../../server/guard/auth.ts";
import { OptionError, type OptionTable, type OptionValues } from "./option_parser.ts";

const ACCESS = "Access";

export const ACCESS_OPTIONS = {
  apiKey: {
    flags: ["--api-key"],
    kind: "string",
    value: "KEY",
    defaultText: "none: every client that reaches the server may use it",
    help: "ask for the header Authorization: Bearer KEY on every path but /health, /health_generate and /metrics",
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
    defaultText: "all",
    help: "pages that may use the server from a browser, such as https://example.org; the server refuses pages of other origins",
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
} as const satisfies OptionTable;

export type AccessOptions = OptionValues<typeof ACCESS_OPTIONS>;

/** @throws {OptionError} for a key that no request could show, and for what is no origin. */
export function requireUsableAccess(options: AccessOptions): void {
  try {
    checkKeys(options);
  } catch (cause) {
    if (!(cause instanceof InvalidRequestError)) throw cause;
    const name = cause.field as "apiKey" | "adminApiKey";
    const message = cause.message.replace(name, `option ${ACCESS_OPTIONS[name].flags[0]}`);
    throw new OptionError(message, { cause });
  }
  const wrong = options.allowedOrigins?.find((origin) => !isOrigin(origin));
  if (wrong !== undefined) {
    const flag = ACCESS_OPTIONS.allowedOrigins.flags[0];
    throw new OptionError(
      `Cannot use option ${flag} ${wrong}: it is no origin, such as https://example.org`,
    );
  }
}

/** What browsers send: scheme, host and port, the latter where it is not the scheme's own. */
function isOrigin(text: string): boolean {
  return text === "null" || (URL.canParse(text) && new URL(text).origin === text);
}

/** The part of the app's options that these are. */
export function accessOf(
  options: AccessOptions,
): Pick<AppOptions, "apiKey" | "adminApiKey" | "allowedOrigins" | "maxBodyBytes"> {
  const { apiKey, adminApiKey, allowedOrigins, maxRequestSize } = options;
  return {
    apiKey,
    adminApiKey,
    allowedOrigins,
    ...(maxRequestSize !== undefined && { maxBodyBytes: maxRequestSize }),
  };
}

/** Who may use the server, as a sentence for its log. */
export function describeAccess(
  { apiKey }: AccessOptions,
  host: string,
): { readonly isOpen: boolean; readonly text: string } {
  const isLocal = isLoopback(host);
  if (apiKey !== undefined)
    return { isOpen: false, text: "Clients must show the key of --api-key" };
  if (isLocal) return { isOpen: false, text: "No key is asked for; only this machine is served" };
  return {
    isOpen: true,
    text: `every client that reaches ${host} may use this server: --api-key asks for a key`,
  };
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host);
}

/** The values of options by the names of the wire, without those that are secrets. */
export function describeOptions(
  table: OptionTable,
  options: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const secrets: readonly string[] = ["apiKey", "adminApiKey", "help"];
  return Object.fromEntries(
    Object.entries(table)
      .filter(([key]) => !secrets.includes(key))
      .map(([key, { flags }]) => [wireName(flags[0]), options[key] ?? null]),
  );
}

const wireName = (flag: string): string => flag.slice(2).replaceAll("-", "_");
