/**
 * Options of servers that share requests: one computes prompts, the other answers.
 *
 * @module
 */
import { BlockList, isIP } from "node:net";
import type { KnownHost } from "../../disaggregation/decode_rooms.ts";
import { isLoopback } from "../../server/guard/hosts.ts";
import { ucxDevices } from "../device/network_devices.ts";
import { OptionError, type OptionTable, type OptionValues } from "../options/option_parser.ts";

const DISAGGREGATION = "Prefill and decode apart";

export const DISAGGREGATION_OPTIONS = {
  disaggregationMode: {
    flags: ["--disaggregation-mode"],
    kind: "string",
    choices: ["null", "prefill", "decode"],
    default: "null",
    help: "prefill computes prompts, decode answers; null does both. Requests come from a router, which sends each to one of either kind",
    group: DISAGGREGATION,
  },
  disaggregationBootstrapPort: {
    flags: ["--disaggregation-bootstrap-port"],
    kind: "integer",
    min: 0,
    max: 65_535,
    default: 8998,
    help: "port at which a prefill server meets decode servers, 0 for any free one; on a decode server that of requests that name none",
    group: DISAGGREGATION,
  },
  disaggregationTransferBackend: {
    flags: ["--disaggregation-transfer-backend"],
    kind: "string",
    choices: ["auto", "ucx", "websocket"],
    default: "auto",
    help: "what cache pages travel by; auto is ucx where both servers have UCX and a key, else websocket",
    group: DISAGGREGATION,
  },
  disaggregationIbDevice: {
    flags: ["--disaggregation-ib-device"],
    kind: "string",
    value: "NAME,...",
    defaultText: "those that UCX finds",
    help: "network devices that pages travel over by UCX, of InfiniBand or others; a port may stand behind each, as in mlx5_0:2",
    group: DISAGGREGATION,
  },
  disaggregationKey: {
    flags: ["--disaggregation-key"],
    kind: "string",
    value: "KEY",
    defaultText: "none: servers of this machine only",
    help: "what prefill and decode servers of a group know; it is never sent",
    group: DISAGGREGATION,
  },
  disaggregationPrefillHosts: {
    flags: ["--disaggregation-prefill-hosts"],
    kind: "strings",
    value: "HOST...",
    defaultText: "127.0.0.1 ::1 localhost",
    help: "decode: hosts of prefill servers, networks of them such as 10.0.0.0/8, or HOST:PORT, that requests may name; every other is refused",
    group: DISAGGREGATION,
  },
  disaggregationBootstrapTimeout: {
    flags: ["--disaggregation-bootstrap-timeout"],
    kind: "number",
    value: "SECONDS",
    min: 0.1,
    max: 2_000_000,
    default: 30,
    help: "how long one half of a request waits for the other to come",
    group: DISAGGREGATION,
  },
  disaggregationWaitingTimeout: {
    flags: ["--disaggregation-waiting-timeout"],
    kind: "number",
    value: "SECONDS",
    min: 0.1,
    max: 2_000_000,
    default: 300,
    help: "decode: how long a prompt may take from when its pages are asked for",
    group: DISAGGREGATION,
  },
  disaggregationHeartbeatInterval: {
    flags: ["--disaggregation-heartbeat-interval"],
    kind: "number",
    value: "SECONDS",
    min: 0.05,
    max: 3600,
    default: 2,
    help: "from one sign of life of the other server to the next; after three missing ones it counts as lost",
    group: DISAGGREGATION,
  },
  numReservedDecodeTokens: {
    flags: ["--num-reserved-decode-tokens"],
    kind: "integer",
    min: 0,
    default: 512,
    help: "decode: tokens of the cache that are kept free for each running request before another prompt gets a place",
    group: DISAGGREGATION,
  },
} as const satisfies OptionTable;

export type DisaggregationOptions = OptionValues<typeof DISAGGREGATION_OPTIONS>;

/** What a server shares with another one by, and where it listens. */
export type RoleOptions = DisaggregationOptions & { readonly host: string };

/** Hosts that a decode server knows without being told. */
const OWN_HOSTS = ["127.0.0.1", "::1", "localhost"];

/** Where requests may say that their prompts are computed. */
export function knownHosts({
  disaggregationPrefillHosts,
}: DisaggregationOptions): readonly KnownHost[] {
  return (disaggregationPrefillHosts ?? OWN_HOSTS).map((text) => {
    const [, bracketed, named, digits] = HOST.exec(text.toLowerCase()) ?? [];
    const host = bracketed ?? named ?? text.toLowerCase();
    const includes = host.includes("/") ? networkOf(host) : undefined;
    return {
      host,
      ...(digits !== undefined && { port: Number(digits) }),
      ...(includes !== undefined && { includes }),
    };
  });
}

/** @throws {OptionError} for what is no network of addresses. */
function networkOf(text: string): (address: string) => boolean {
  const [address = "", bits = "", ...others] = text.split("/");
  const version = isIP(address);
  const isNumber = /^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128);
  if (version === 0 || !isNumber || others.length > 0) {
    const state = "it is no network, such as 10.0.0.0/8";
    throw new OptionError(`Cannot use option --disaggregation-prefill-hosts ${text}: ${state}`);
  }
  const network = new BlockList();
  network.addSubnet(address, Number(bits), version === 4 ? "ipv4" : "ipv6");
  return (other) => {
    const own = isIP(other);
    return own !== 0 && network.check(other, own === 4 ? "ipv4" : "ipv6");
  };
}

/** An address in brackets or a name, and a port. */
const HOST = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/;

/** @throws {OptionError} for what would let strangers in, or pages out, or what no such server can do. */
export function requireUsableDisaggregation(
  options: DisaggregationOptions & { readonly sleepIdleSeconds?: number | undefined },
): void {
  if (options.disaggregationMode !== "null" && options.sleepIdleSeconds !== undefined) {
    const problem = "pages come and go at any time, and find no engine that sleeps";
    throw new OptionError(
      `Cannot use option --sleep-idle-seconds together with --disaggregation-mode ${options.disaggregationMode}: ${problem}`,
    );
  }
  requireUsableDevices(options);
  if (options.disaggregationMode !== "decode") return;
  const hosts = knownHosts(options);
  if (options.disaggregationKey !== undefined) return;
  const stranger = hosts.find(({ host }) => !isLoopback(host));
  if (stranger === undefined) return;
  const state = "servers of other machines need option --disaggregation-key";
  throw new OptionError(
    `Cannot use option --disaggregation-prefill-hosts ${stranger.host}: ${state}`,
  );
}

/** @throws {OptionError} for devices that this machine lacks, or that nothing would go over. */
function requireUsableDevices(options: DisaggregationOptions): void {
  const { disaggregationMode, disaggregationIbDevice, disaggregationTransferBackend } = options;
  if (disaggregationMode === "null" || disaggregationIbDevice === undefined) return;
  const refuse = (state: string) => {
    throw new OptionError(
      `Cannot use option --disaggregation-ib-device ${disaggregationIbDevice}: ${state}`,
    );
  };
  if (disaggregationTransferBackend === "websocket") {
    refuse("--disaggregation-transfer-backend websocket goes over any");
  }
  if (options.disaggregationKey === undefined) {
    refuse("servers of other machines need option --disaggregation-key");
  }
  const { missing } = ucxDevices(disaggregationIbDevice);
  if (missing !== undefined) refuse(`this machine has no device ${missing}`);
}
