/**
 * Options of routers of this kind whose capability does not exist yet. The parser refuses each with a
 * message that names it.
 *
 * @module
 */
import { reserved } from "../options/reserved_options.ts";

export const RESERVED_ROUTER_OPTIONS = reserved({
  miniLb: { flags: ["--mini-lb"], kind: "flag", help: "balancer for debugging" },
  logDir: { flags: ["--log-dir"], kind: "string", help: "folder for the log" },
  modelPath: { flags: ["--model-path"], kind: "string", help: "model of workers by gRPC" },
  tokenizerPath: {
    flags: ["--tokenizer-path"],
    kind: "string",
    help: "tokenizer for workers by gRPC",
  },
});
