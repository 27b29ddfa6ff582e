/**
 * What a page and the service worker of its local endpoint say to each other: plain data. Other
 * scripts may use the same channel, so each message has a field that only these have.
 *
 * @module
 */
import type { ErrorData } from "../../engine/remote/error_data.ts";
import type { AppOptions } from "../../server/app.ts";

/** Options of the endpoints that are plain data. */
export type EndpointOptions = Pick<
  AppOptions,
  | "adminApiKey"
  | "apiKey"
  | "cacheReport"
  | "description"
  | "healthCheckTimeout"
  | "maxBodyBytes"
  | "reasoningParser"
  | "requestDefaults"
  | "requestMemory"
  | "servedModelName"
  | "toolCallParser"
  | "watchdogTimeout"
>;

/** From a page. `id` is that of one `startLocalEndpoint`. */
export type EndpointCall =
  /** Comes with a port to the engine. */
  | { readonly wispEndpoint: "offer"; readonly id: string; readonly options: EndpointOptions }
  | { readonly wispEndpoint: "withdraw"; readonly id: string }
  /** Answers `wake`. That it comes is all that counts. */
  | { readonly wispEndpoint: "awake" };

/** To a page. */
export type EndpointNews =
  | { readonly wispEndpoint: "taken"; readonly id: string }
  | { readonly wispEndpoint: "refused"; readonly id: string; readonly error: ErrorData }
  | { readonly wispEndpoint: "withdrawn"; readonly id: string }
  /** The service worker was stopped and has started again: its ports are gone. */
  | { readonly wispEndpoint: "wanted" }
  /** Keeps a service worker from counting as idle while an engine works for it. */
  | { readonly wispEndpoint: "wake" };

export function isEndpointMessage(data: unknown): boolean {
  return typeof data === "object" && data !== null && "wispEndpoint" in data;
}
