/**
 * The worker that `loadWorkerEngine` starts: one engine, served at as many ports as it is given.
 *
 * @module
 */
import { Engine } from "../engine/engine.ts";
import { errorData } from "../engine/remote/error_data.ts";
import { messagePort } from "../engine/remote/port.ts";
import { serveEngine } from "../engine/remote/serve_engine.ts";
import type { GenerationEngine } from "../generation.ts";
import { browserDecoder } from "./decode_image.ts";
import { withArrivingPrompts } from "./decode_node/arriving_prompts.ts";
import { deviceFactory, inspectAdapter } from "./device.ts";
import { openPrefixStorage } from "./storage/prefix_storage.ts";
import { openModel } from "./worker/model_address.ts";
import { workerGrammarService } from "./worker/worker_grammar_service.ts";
import { workerImageService } from "./worker/worker_image_service.ts";
import type { Listeners, WorkerCall, WorkerNews } from "./worker/worker_messages.ts";

type LoadCall = Extract<WorkerCall, { type: "load" }>;

const tell = (news: WorkerNews) => self.postMessage(news);

let engine: Engine;
/** The same, or one whose prompts may come from a prefill server. */
let served: GenerationEngine;
/** Ends the serving of each port. */
const stops: (() => void)[] = [];

self.onmessage = ({ data: call }: MessageEvent<WorkerCall>) => {
  switch (call.type) {
    case "load":
      load(call).catch((error: unknown) => tell({ type: "failed", error: errorData(error) }));
      break;
    case "connect":
      stops.push(serveEngine(served, messagePort(call.port)));
      break;
    case "close":
      close();
      break;
    default:
      call satisfies never;
  }
};

async function load({ address, options, device, listeners }: LoadCall): Promise<void> {
  const { prefixStore, draftModel, ...plain } = options;
  const { onPrefixProblem, onPages = () => {}, ...told } = bridged(listeners);
  // What is missing here shows before anything is fetched.
  const adapter = await inspectAdapter(device);
  engine = await Engine.load(await openModel(address), {
    ...plain,
    draftModel: draftModel && (await openModel(draftModel)),
    device: deviceFactory(device),
    prefixStore: prefixStore && {
      ...prefixStore,
      storage: await openPrefixStorage(),
      onProblem: onPrefixProblem,
    },
    // A worker cannot start workers everywhere.
    ...(typeof Worker === "function"
      ? { grammarService: workerGrammarService, imageService: workerImageService }
      : { decodeImage: browserDecoder }),
    ...told,
  });
  served = plain.transfersPages ? withArrivingPrompts(engine, onPages) : engine;
  const { memoryPlan, selfTest, quantizationErrors, pipelines } = engine;
  const facts = { adapter, memoryPlan, selfTest, quantizationErrors, pipelines };
  tell({ type: "loaded", facts });
}

/** Listeners that tell the page's. */
function bridged(listeners: LoadCall["listeners"]): Listeners {
  const calls = listeners.map((listener) => {
    return [listener, (argument: unknown) => tell({ type: "called", listener, argument })];
  });
  return Object.fromEntries(calls);
}

/** Each port's last messages say that the engine is gone. */
async function close(): Promise<void> {
  try {
    await engine.close();
  } finally {
    for (const stop of stops) stop();
  }
}
