/**
 * What every request goes through before its endpoint, of a server and of a router of servers.
 *
 * @module
 */
import type { Hono } from "hono";
import { type AuthOptions, requireKey } from "./auth.ts";
import type { HostOptions } from "./hosts.ts";
import { type Lifecycle, refuseWhileDraining } from "./lifecycle.ts";
import { refuseChangesByPages } from "./state_changes.ts";

export interface GuardedEndpoint {
  /** Its names, which all do the same. */
  readonly paths: readonly string[];
  /** Which key is asked for, where there are keys. Default: the clients'. */
  readonly key?: "none" | "admin";
  /** What it does while the server stops. Default: it refuses, with the body of an error. */
  readonly draining?: "serves" | "refuses by status";
}

/** Asks for keys, and refuses what pages of others change and what comes while the server drains. */
export function guardEndpoints(
  app: Hono,
  endpoints: readonly GuardedEndpoint[],
  options: AuthOptions & HostOptions & { readonly lifecycle: () => Lifecycle },
): void {
  const pathsOf = (wanted: (endpoint: GuardedEndpoint) => boolean) =>
    endpoints.filter(wanted).flatMap(({ paths }) => paths);
  const keyPaths = {
    open: pathsOf(({ key }) => key === "none"),
    admin: pathsOf(({ key }) => key === "admin"),
  };
  app.use(requireKey(options, keyPaths));
  app.use(refuseChangesByPages(options, keyPaths.admin));
  const drainingPaths = {
    served: pathsOf(({ draining }) => draining === "serves"),
    byStatus: pathsOf(({ draining }) => draining === "refuses by status"),
  };
  app.use(refuseWhileDraining(options.lifecycle, drainingPaths));
}
