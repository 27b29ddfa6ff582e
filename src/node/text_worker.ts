/**
 * The thread that `workerTextService` starts.
 *
 * @module
 */
import { parentPort } from "node:worker_threads";
import { serveText } from "../engine/text/serve_text.ts";

const port = parentPort!;
const take = serveText((answer, transfer) => port.postMessage(answer, [...transfer]));
port.on("message", take);
