/**
 * What cache pages go by between two servers, beside the connection that carries everything else.
 *
 * @module
 */
import type { Channel } from "../../disaggregation/channel.ts";
import { UnsupportedError } from "../../errors.ts";
import { ucxDevices } from "../device/network_devices.ts";
import type { DisaggregationOptions } from "./disaggregation_options.ts";

export interface PageWays {
  /** Bytes of a message at most. */
  readonly maxMessage: number;
  /** For the log. */
  readonly lines: readonly string[];
  /** A connection with the ways that pages have. */
  over(channel: Channel): Channel;
  close(): void;
}

/** The interface that stays on a machine. */
const LOOPBACK = "lo";

/**
 * @param maxMessage Bytes.
 * @param onEvent Told where pages of a connection go another way than was agreed.
 * @throws {UnsupportedError} where UCX is asked for by name and is not here.
 */
export async function openWays(
  options: DisaggregationOptions,
  maxMessage: number,
  onEvent: (text: string) => void,
): Promise<PageWays> {
  const { disaggregationTransferBackend: backend, disaggregationKey: key } = options;
  const isRequired = backend === "ucx";
  // UCX has ports of its own, which a server opens only where options ask for it or name a group.
  if (backend === "websocket" || (key === undefined && !isRequired)) {
    return onlyWebSocket(maxMessage, []);
  }
  const { disaggregationIbDevice: asked } = options;
  const named = asked === undefined ? "" : ucxDevices(asked).names;
  const devices = key === undefined ? LOOPBACK : named;
  const onDetour = (problem: string) => onEvent(`Pages go by WebSocket after all: ${problem}`);
  const { UcxLibrary } = await import("../ucx/ucx_library.ts");
  const { UcxChannel } = await import("../ucx/ucx_channel.ts");
  try {
    const ucx = await UcxLibrary.open(devices);
    const over = devices === "" ? "" : ` over ${devices}`;
    return {
      maxMessage,
      lines: [`Pages: by UCX ${ucx.version}${over}${isRequired ? "" : ", or by WebSocket"}`],
      over: (channel) => new UcxChannel(channel, { ucx, isRequired, maxMessage, onDetour }),
      close: () => ucx.close(),
    };
  } catch (error) {
    if (isRequired || !(error instanceof UnsupportedError)) throw error;
    const [problem] = error.message.split("\n", 1);
    return onlyWebSocket(maxMessage, [`Pages: by WebSocket. ${problem}`]);
  }
}

function onlyWebSocket(maxMessage: number, lines: readonly string[]): PageWays {
  return { maxMessage, lines, over: (channel) => channel, close() {} };
}
