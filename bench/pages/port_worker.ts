/**
 * A worker that serves an engine which has nothing to compute.
 *
 * @module
 */
import { messagePort } from "../../src/engine/remote/port.ts";
import { serveEngine } from "../../src/engine/remote/serve_engine.ts";
import { instantEngine } from "./instant_engine.ts";

const engine = instantEngine();

globalThis.onmessage = ({ data }: MessageEvent<MessagePort>) => {
  serveEngine(engine, messagePort(data));
};
