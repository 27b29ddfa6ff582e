/**
 * The worker that `workerImageService` starts.
 *
 * @module
 */
import type { ImageCall } from "../engine/images/image_messages.ts";
import { serveImages } from "../engine/images/serve_images.ts";
import { browserDecoder, readDrawing } from "./decode_image.ts";

const take = serveImages(
  (answer, transfer) => self.postMessage(answer, { transfer: [...transfer] }),
  {
    decode: browserDecoder,
    readDrawing,
  },
);
self.onmessage = ({ data }: MessageEvent<ImageCall>) => take(data);
