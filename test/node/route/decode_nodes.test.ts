/** A router lets pages of browsers in by options of its own alone, and refuses options that need others. */
import { afterEach, expect, test } from "vitest";
import { WebSocket } from "ws";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import {
  pairPoliciesOf,
  requireUsable,
  routerOptions,
} from "../../../src/node/route/map_router_options.ts";
import { ROUTER_OPTIONS } from "../../../src/node/route/router_options.ts";
import { NODE_VERSION } from "../../../src/router/nodes/node_messages.ts";
import { routerTo } from "../../support/router/running_router.ts";
import { closeAll } from "../../support/router/worker_servers.ts";

afterEach(closeAll);

const PAIR = ["--pd-disaggregation", "--prefill", "http://a:1", "--decode", "http://b:1"];
const optionsOf = (...args: string[]) => parseOptions(ROUTER_OPTIONS, args).values;

test("--decode-nodes and --disaggregation-key need each other, and servers with roles", () => {
  expect(() => requireUsable(optionsOf(...PAIR, "--decode-nodes"))).toThrow(
    "Cannot use option --decode-nodes: it needs --disaggregation-key",
  );
  expect(() => requireUsable(optionsOf(...PAIR, "--disaggregation-key", "k"))).toThrow(
    "Cannot use option --disaggregation-key: it needs --decode-nodes",
  );
  const alone = ["--worker-urls", "http://a:1", "--decode-nodes", "--disaggregation-key", "k"];
  expect(() => requireUsable(optionsOf(...alone))).toThrow("it needs --pd-disaggregation");
  expect(
    requireUsable(optionsOf(...PAIR, "--decode-nodes", "--disaggregation-key", "k")),
  ).toHaveLength(2);
});

/** How a WebSocket of a page of this origin ends that shows a token. */
function ended(url: string, origin: string, token: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = new WebSocket(url.replace("http", "ws"), { origin });
    let heard = "";
    socket.on("error", ({ message }) => resolve(message));
    socket.on("open", () =>
      socket.send(JSON.stringify({ type: "join", version: NODE_VERSION, token })),
    );
    socket.on("message", (data) => {
      heard = String(data);
      if (heard.includes("joined")) socket.close();
    });
    socket.on("close", () => resolve(heard));
  });
}

test("pages of listed origins join by tokens that the admin key gives", async () => {
  const args = [...PAIR, "--decode-nodes", "--disaggregation-key", "k", "--admin-api-key", "boss"];
  const options = optionsOf(...args, "--allowed-origins", "http://page");
  const { nodesKey, adminApiKey, allowedOrigins } = routerOptions(options);
  const pairPolicies = pairPoliciesOf(options);
  const router = await routerTo([], { nodesKey, adminApiKey, allowedOrigins, pairPolicies });
  const give = (authorization: string) =>
    fetch(`${router.url}/decode_node_token`, { method: "POST", headers: { authorization } });
  expect((await give("Bearer k")).status).toBe(401);
  const { token } = (await (await give("Bearer boss")).json()) as { token: string };
  const url = `${router.url}/join_as_decode_node`;
  expect(await ended(url, "http://elsewhere", token)).toContain("403");
  expect(await ended(`${router.url}/generate`, "http://page", token)).toContain("400");
  expect(await ended(url, "http://page", "k")).toContain("its token is none");
  expect(await ended(url, "http://page", token)).toMatch(
    /^\{"type":"joined","node":"[0-9a-f]{32}"\}$/,
  );
  expect(await ended(url, "http://page", token)).toContain("its token is none");
});
