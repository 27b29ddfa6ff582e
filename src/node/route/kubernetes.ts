/**
 * The interface of the Kubernetes cluster in which a router runs, and the credentials of its pod.
 *
 * @module
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Cluster } from "../../router/discovery/pod_watch.ts";
import type { Environment } from "../hub/hub_settings.ts";
import { OptionError } from "../options/option_parser.ts";
import { askCluster } from "./http_upstream.ts";

/** Where each pod of a cluster has its service account. */
const ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * @param api Default: that of the cluster in which this process is a pod.
 * @throws {OptionError} where it is in none.
 */
export function clusterAddress(api: string | undefined, env: Environment): string {
  if (api !== undefined) return api.replace(/\/+$/, "");
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = "443" } = env;
  if (host === undefined) {
    const state = "this process is in no cluster; --service-discovery-api names one";
    throw new OptionError(`Cannot use option --service-discovery: ${state}`);
  }
  return `https://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/**
 * A cluster that is asked as its service account, whose token and certificates are read for each
 * request: the cluster writes new ones before those of before expire. By http, as through a proxy of
 * this machine that has credentials of its own, it is sent none.
 */
export function clusterAt(address: string, folder = ACCOUNT_FOLDER): Cluster {
  return {
    get: async (path, signal) => {
      const request = { url: address + path, method: "GET", signal };
      const headers = { accept: "application/json" };
      if (!address.startsWith("https:")) return askCluster({ ...request, headers });
      const [token, ca] = await Promise.all(
        ["token", "ca.crt"].map((name) => readFile(join(folder, name), "utf8")),
      );
      const authorization = `Bearer ${token!.trim()}`;
      return askCluster({ ...request, headers: { ...headers, authorization } }, ca);
    },
  };
}
