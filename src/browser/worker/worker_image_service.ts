/**
 * Images decoded, resampled and hashed in a worker of a page.
 *
 * @module
 */
import type { ImageAnswer } from "../../engine/images/image_messages.ts";
import type { CreateImageService } from "../../engine/images/image_service.ts";
import {
  RemoteImageService,
  type StartImageThread,
} from "../../engine/images/remote_image_service.ts";

/** Reads PNG, JPEG, WebP, GIF and what a page has drawn in a worker, which starts with the first image. */
export const workerImageService: CreateImageService = ({ alpha }) =>
  new RemoteImageService({ start: startThread, alpha, readsDrawings: true });

const startThread: StartImageThread = ({ onAnswer, onEnd }) => {
  const worker = new Worker(new URL("../image_worker.ts", import.meta.url), { type: "module" });
  worker.onmessage = ({ data }: MessageEvent<ImageAnswer>) => onAnswer(data);
  worker.onerror = ({ message }) => {
    onEnd(`its worker ${message ? `failed: ${message}` : "cannot be loaded"}`, false);
  };
  return {
    send: (call, transfer) => worker.postMessage(call, [...transfer]),
    terminate: () => worker.terminate(),
  };
};
