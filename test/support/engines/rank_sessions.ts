/**
 * One model on several ranks of this process, driven together.
 *
 * @module
 */
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { openDevice } from "../../../src/node/device/device.ts";
import type { Communicator } from "../../../src/parallel/communicator.ts";
import { localGroup } from "../../../src/parallel/local.ts";
import { device, smallestCaseOnly } from "../devices/gpu.ts";
import { gpuErrors } from "../devices/gpu_errors.ts";
import { ModelSession } from "./model_session.ts";

/** A second device: a tensor of one is of no use to the other. */
async function openSecond(): Promise<GPUDevice> {
  const { device: second } = await openDevice();
  second.addEventListener("uncapturederror", ({ error }) => {
    gpuErrors.messages.push(error.message);
  });
  return second;
}

/** A slow adapter compiles for one device only. */
const devices = smallestCaseOnly ? [device] : [device, await openSecond()];

export interface RankSession {
  readonly session: ModelSession;
  /** Names of the exchanges it took part in, in order, and the bytes it brought to all of them. */
  readonly exchanged: { names: string[]; bytes: number };
  /** Bytes that it read of the checkpoint's weights. */
  readonly readBytes: number;
}

/** Loads the model on `size` ranks, which take turns in the two devices unless they are given one. */
export function openRanks(
  source: WeightSource,
  size: number,
  { attentionGroups, ...options }: Partial<LoadOptions> = {},
): Promise<RankSession[]> {
  return Promise.all(
    localGroup(size, attentionGroups).map(async (communicator, rank) => {
      const exchanged = { names: [] as string[], bytes: 0 };
      let readBytes = 0;
      const counted: WeightSource = {
        ...source,
        read(file, offset, length) {
          readBytes += length;
          return source.read(file, offset, length);
        },
      };
      const session = await ModelSession.open(counted, {
        device: devices[rank % devices.length]!,
        ...options,
        communicator: counting(communicator, exchanged),
      });
      exchanged.names.length = 0;
      exchanged.bytes = 0;
      return { session, exchanged, readBytes };
    }),
  );
}

function counting(communicator: Communicator, exchanged: RankSession["exchanged"]): Communicator {
  return {
    ...communicator,
    allGather(part, into, exchange) {
      exchanged.names.push(exchange.name);
      exchanged.bytes += part.length;
      return communicator.allGather(part, into, exchange);
    },
    allToAll(part, into, exchange) {
      exchanged.names.push(exchange.name);
      exchanged.bytes += part.length;
      return communicator.allToAll(part, into, exchange);
    },
  };
}
