import { expect, test } from "vitest";
import { requireFreeAddress, serve } from "../../../src/node/serve/http.ts";

const LOCAL = { host: "127.0.0.1", port: 0 };

test("requireFreeAddress leaves the address free", async () => {
  const server = await serve({ fetch: () => new Response() }, LOCAL);
  const port = Number(new URL(server.url).port);
  await expect(requireFreeAddress({ ...LOCAL, port })).rejects.toThrow("the port is in use");
  await server.close();
  await requireFreeAddress({ ...LOCAL, port });
  await (await serve({ fetch: () => new Response() }, { ...LOCAL, port })).close();
});
