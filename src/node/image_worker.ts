/**
 * The thread that `workerImageService` starts.
 *
 * @module
 */
import { parentPort } from "node:worker_threads";
import { serveImages } from "../engine/images/serve_images.ts";
import { sharpDecoder } from "./media/sharp_decoder.ts";

const port = parentPort!;
const take = serveImages((answer, transfer) => port.postMessage(answer, [...transfer]), {
  decode: sharpDecoder,
});
port.on("message", take);
