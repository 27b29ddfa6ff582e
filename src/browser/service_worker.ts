/**
 * The service worker that `startLocalEndpoint` registers: answers the endpoints' paths below its
 * scope, with the engine of a page. Everything else goes to the network as if it were not there.
 *
 * It holds no engine itself, because a browser stops an idle service worker at will. When it starts
 * again it asks its pages for a port to theirs.
 *
 * @module
 */
import { errorData } from "../engine/remote/error_data.ts";
import { messagePort } from "../engine/remote/port.ts";
import { RemoteEngine } from "../engine/remote/remote_engine.ts";
import { errorResponse, HttpError } from "../http/error_response.ts";
import { REQUEST_ID_HEADER, requestIdOf } from "../http/request_id.ts";
import { createApp } from "../server/app.ts";
import { isEndpointPath } from "../server/routes/endpoint_paths.ts";
import {
  type EndpointCall,
  type EndpointNews,
  type EndpointOptions,
  isEndpointMessage,
} from "./endpoint/endpoint_messages.ts";
import { EndpointOffers, type Offer } from "./endpoint/endpoint_offers.ts";

/** What is used of the scope of a service worker, which TypeScript has no types of beside a page's. */
interface ServiceWorkerScope {
  readonly registration: { readonly scope: string; unregister(): Promise<boolean> };
  readonly clients: {
    claim(): Promise<void>;
    get(id: string): Promise<Client | undefined>;
    matchAll(options: { includeUncontrolled: boolean }): Promise<readonly Client[]>;
  };
  skipWaiting(): Promise<void>;
  addEventListener(type: "install" | "activate", listener: (event: Extendable) => void): void;
  addEventListener(type: "message", listener: (event: FromPage) => void): void;
  addEventListener(type: "fetch", listener: (event: FetchEvent) => void): void;
}

interface Client {
  readonly id: string;
  postMessage(message: unknown): void;
}

interface Extendable {
  waitUntil(promise: Promise<unknown>): void;
}

interface FromPage extends Extendable {
  readonly data: unknown;
  readonly source: Client;
  readonly ports: readonly MessagePort[];
}

interface FetchEvent extends Extendable {
  readonly request: Request;
  respondWith(response: Promise<Response>): void;
}

/** How long a request waits for a page's engine. Pages that are there answer within a moment. */
const PATIENCE_MS = 5000;
/** How long `withdraw` waits for other pages' offers. */
const OTHERS_MS = 500;
/** Shorter than the 30 s without an event after which browsers stop a service worker. */
const WAKE_MS = 10_000;

const scope = self as unknown as ServiceWorkerScope;

const offers = new EndpointOffers({
  patience: PATIENCE_MS,
  isOpen: async (id) => (await scope.clients.get(id)) !== undefined,
  ask: () => void tellAll({ wispEndpoint: "wanted" }),
});

scope.addEventListener("install", (event) => event.waitUntil(scope.skipWaiting()));
scope.addEventListener("activate", (event) => event.waitUntil(scope.clients.claim()));

scope.addEventListener("message", (event) => {
  if (isEndpointMessage(event.data)) event.waitUntil(take(event, event.data as EndpointCall));
});

scope.addEventListener("fetch", (event) => {
  const path = endpointPath(event.request);
  if (path !== undefined) event.respondWith(answer(event.request, path));
});

setInterval(() => {
  if (offers.all.some(({ isBusy }) => isBusy())) void tellAll({ wispEndpoint: "wake" });
}, WAKE_MS);

async function tellAll(news: EndpointNews): Promise<void> {
  const clients = await scope.clients.matchAll({ includeUncontrolled: true });
  for (const client of clients) client.postMessage(news);
}

async function take({ source, ports }: FromPage, call: EndpointCall): Promise<void> {
  const tell = (news: EndpointNews) => source.postMessage(news);
  switch (call.wispEndpoint) {
    case "offer":
      try {
        await takeOffer(source.id, ports[0]!, call);
        // A page that was loaded past this service worker is not its own before.
        await scope.clients.claim();
        tell({ wispEndpoint: "taken", id: call.id });
      } catch (error) {
        tell({ wispEndpoint: "refused", id: call.id, error: errorData(error) });
      }
      break;
    case "withdraw":
      offers.remove(call.id);
      tell({ wispEndpoint: "withdrawn", id: call.id });
      if ((await offers.newest(OTHERS_MS)) === undefined) await scope.registration.unregister();
      break;
    case "awake":
      break;
    default:
      call satisfies never;
  }
}

async function takeOffer(
  clientId: string,
  port: MessagePort,
  { id, options }: Extract<EndpointCall, { wispEndpoint: "offer" }>,
): Promise<void> {
  const engine = await RemoteEngine.connect(messagePort(port));
  const offer = {
    id,
    clientId,
    answer: appOf(engine, options),
    isBusy: () => {
      const { runningRequests, queuedRequests } = engine.status();
      // While a lost device is replaced, those that ran are queued.
      return runningRequests + queuedRequests > 0;
    },
  };
  offers.add(offer);
  void engine.ended.then(() => offers.remove(offer));
}

function appOf(engine: RemoteEngine, options: EndpointOptions): Offer["answer"] {
  try {
    // Only pages of this origin reach a service worker, by no name but theirs.
    const doors = { allowedOrigins: ["*"], allowedHosts: ["*"] };
    const app = createApp(engine, { ...options, ...doors });
    return (request) => app.fetch(request);
  } catch (error) {
    void engine.close();
    throw error;
  }
}

/**
 * The path of an endpoint below the scope, when the request is for one. Where a tab goes is left to
 * the network: other origins may send it anywhere, and must not reach the engine so.
 */
function endpointPath({ url, mode }: Request): string | undefined {
  const base = scope.registration.scope;
  if (mode === "navigate" || !url.startsWith(base)) return undefined;
  const path = new URL(url).pathname.slice(new URL(base).pathname.length - 1);
  return isEndpointPath(path) ? path : undefined;
}

async function answer(request: Request, path: string): Promise<Response> {
  const offer = await offers.newest();
  if (offer === undefined) {
    const problem = "no page that has an engine is open";
    return errorResponse(
      new HttpError("unavailable", `Cannot ${request.method} ${path}: ${problem}`),
      { [REQUEST_ID_HEADER]: requestIdOf(request.headers) },
    );
  }
  return offer.answer(await atPath(request, path));
}

/** The request as the endpoints know it, whose paths begin at the scope. */
async function atPath(request: Request, path: string): Promise<Request> {
  const url = new URL(request.url);
  if (url.pathname === path) return request;
  url.pathname = path;
  const { method, headers, signal } = request;
  const hasBody = method !== "GET" && method !== "HEAD";
  // Not every browser can make a request with another one's stream.
  const body = hasBody ? await request.arrayBuffer() : null;
  return new Request(url, { method, headers, signal, body });
}
