/**
 * Images decoded, resampled and hashed in a worker thread of Node.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { ImageAnswer } from "../engine/images/image_messages.ts";
import type { CreateImageService } from "../engine/images/image_service.ts";
import { localImageService } from "../engine/images/local_image_service.ts";
import {
  RemoteImageService,
  type StartImageThread,
} from "../engine/images/remote_image_service.ts";
import { sharpDecoder } from "./media/sharp_decoder.ts";

/** MiB of heap that the thread may take; pixels lie beside it, and have limits of their own. */
export const MAX_IMAGE_HEAP_MIB = 512;
/** Where the built worker lies, seen from the package's entries and from the files they share. */
const PLACES = ["./image_worker.js", "../image_worker.js"];

/**
 * Reads images in a worker thread, which starts with the first of them and never keeps the process
 * alive by itself: PNG, and by the package sharp JPEG, WebP and GIF. What takes too long or too much
 * memory ends the thread and its request alone. Run from its TypeScript source the package has no file
 * that a thread could run: then images are read in this thread, in short slices.
 */
export const workerImageService: CreateImageService = ({ alpha }) => {
  const urls = PLACES.map((place) => new URL(place, import.meta.url));
  const url = urls.find((one) => existsSync(fileURLToPath(one)));
  if (url === undefined) return localImageService({ alpha, decode: sharpDecoder });
  return new RemoteImageService({ start: imageThread(url), alpha, readsDrawings: false });
};

/**
 * @param url The built `image_worker.ts`.
 * @param heapMib MiB of heap that the thread may take.
 */
export function imageThread(url: URL, heapMib = MAX_IMAGE_HEAP_MIB): StartImageThread {
  return ({ onAnswer, onEnd }) => {
    const worker = new Worker(url, {
      // Flags of this process may be such that a thread refuses them.
      execArgv: [],
      name: "images",
      resourceLimits: { maxOldGenerationSizeMb: heapMib },
    });
    worker.on("message", (answer: ImageAnswer) => onAnswer(answer));
    worker.on("error", (error: NodeJS.ErrnoException) =>
      onEnd(`its thread failed: ${error.message}`, error.code === "ERR_WORKER_OUT_OF_MEMORY"),
    );
    worker.on("exit", () => onEnd("its thread has ended", false));
    worker.unref();
    return {
      send: (call, transfer) => worker.postMessage(call, [...transfer]),
      setAwaited: (isAwaited) => (isAwaited ? worker.ref() : worker.unref()),
      terminate: () => void worker.terminate(),
    };
  };
}
