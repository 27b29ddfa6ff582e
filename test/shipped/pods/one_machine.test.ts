/**
 * The services of `deploy/compose.yaml` as installed programs: their commands as they stand there, but for
 * names of hosts, ports, and where the files of options lie.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { DEPLOY, readYaml } from "../../support/deploy/manifests.ts";
import { freePort } from "../../support/mpi/processes.ts";
import { until } from "../../support/until.ts";
import { type ServingWisp, scratch, serveWisp, stopAll } from "../support/wisp.ts";

afterAll(stopAll);

interface Service {
  readonly command: readonly string[];
  /** Files of this machine, where they lie in the container, and that they are only read. */
  readonly volumes: readonly string[];
}

const KEYS = { server: { "api-key": "of-clients", "disaggregation-key": "of-the-group" } };
const ROUTER_KEYS = { "api-key": "of-clients", "prometheus-port": 0 };

test("prefill server, decode server and router of the compose file answer together", async () => {
  const { services } = readYaml<{ services: Readonly<Record<string, Service>> }>(
    join(DEPLOY, "compose.yaml"),
  );
  const folder = scratch("keys");
  writeFileSync(join(folder, "server.json"), JSON.stringify(KEYS.server));
  writeFileSync(join(folder, "router.json"), JSON.stringify(ROUTER_KEYS));
  const [prefillPort, decodePort, meeting] = await Promise.all([
    freePort(),
    freePort(),
    freePort(),
  ]);
  /** A service in a container has all ports for itself. */
  const start = (name: string): Promise<ServingWisp> => {
    const { command, volumes } = services[name]!;
    const [program, ...args] = command.map((word) => {
      const mounted = volumes.map((line) => line.split(":")).find(([, at]) => word.includes(at!));
      if (mounted !== undefined) return word.replace(mounted[1]!, folder + mounted[0]!.slice(6));
      return word
        .replace("--host=0.0.0.0", "--host=127.0.0.1")
        .replace("http://prefill:30000", `http://127.0.0.1:${prefillPort}`)
        .replace("http://decode:30000", `http://127.0.0.1:${decodePort}`)
        .replace("--port=30000", `--port=${name === "prefill" ? prefillPort : decodePort}`)
        .replace("--port=8000", "--port=0")
        .replace(/^prefill$/, `127.0.0.1:${meeting}`)
        .replace(/^(--disaggregation-bootstrap-port=)?8998$/, `$1${meeting}`);
    });
    return serveWisp(args, { command: [program!] });
  };
  await Promise.all([start("prefill"), start("decode")]);
  const router = await start("router");
  const authorization = { authorization: "Bearer of-clients" };
  await until(async () => expect((await router.get("/readiness")).status).toBe(200));
  const body = {
    messages: [{ role: "user", content: "What is the capital of Japan?" }],
    temperature: 0,
  };
  expect((await router.post("/v1/chat/completions", body)).status).toBe(401);
  const answer = await router.post("/v1/chat/completions", body, authorization);
  expect([answer.status, await answer.json()]).toMatchObject([
    200,
    { choices: [{ message: { content: "The capital of Japan is Tokyo." } }] },
  ]);
});
