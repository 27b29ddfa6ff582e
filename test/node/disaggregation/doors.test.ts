/** Where servers without a key of their group are met, and what they connect to. */
import { connect } from "node:net";
import { networkInterfaces } from "node:os";
import { afterEach, expect, test } from "vitest";
import { DISAGGREGATION_OPTIONS } from "../../../src/node/disaggregation/disaggregation_options.ts";
import { openRole } from "../../../src/node/disaggregation/open_role.ts";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { closeAfterwards, closeAll } from "../../support/router/worker_servers.ts";

afterEach(closeAll);

const LAYOUT = {
  ...{ modelHash: "m", numerics: "{}", dtype: "bf16" as const },
  ...{ entryWidth: 8, pageSize: 4, layers: 2 },
};
const NARROW = "Decode servers of this machine only are met: --disaggregation-key lets others in";

async function prefillAt(host: string, args: readonly string[]) {
  const engine = Object.assign(new ScriptedEngine(), { pageLayout: LAYOUT });
  const { values } = parseOptions(DISAGGREGATION_OPTIONS, [
    ...["--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", "0"],
    ...["--disaggregation-transfer-backend", "websocket", ...args],
  ]);
  const role = (await openRole(engine, {
    ...{ options: { ...values, host }, env: {}, onEvent: () => {} },
  }))!;
  closeAfterwards(() => role.close());
  const [, address, port] = /met at (.*):(\d+)$/.exec(role.lines.at(-1)!)!;
  return { lines: role.lines, address, port: Number(port) };
}

/** Whether something listens there. */
function listens(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    socket.on("connect", () => resolve(true)).on("error", () => resolve(false));
    socket.on("connect", () => socket.destroy());
  });
}

const [outer] = Object.values(networkInterfaces())
  .flatMap((addresses) => addresses ?? [])
  .filter(({ internal, family }) => !internal && family === "IPv4");
if (outer === undefined) console.log("Addresses of other machines are not tried: there is none");

test("without a key a prefill server is met on its own machine, whatever it listens on", async () => {
  const open = await prefillAt("0.0.0.0", ["--disaggregation-key", "k"]);
  expect([open.address, open.lines.includes(NARROW)]).toEqual(["0.0.0.0", false]);
  const narrow = await prefillAt("0.0.0.0", []);
  expect([narrow.address, narrow.lines.includes(NARROW)]).toEqual(["127.0.0.1", true]);
  expect(await listens("127.0.0.1", narrow.port)).toBe(true);
  const own = await prefillAt("127.0.0.2", []);
  expect([own.address, own.lines.includes(NARROW)]).toEqual(["127.0.0.2", false]);
  if (outer === undefined) return;
  expect(await listens(outer.address, open.port)).toBe(true);
  expect(await listens(outer.address, narrow.port)).toBe(false);
});
