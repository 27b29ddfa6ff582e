/** What several replicas do not go with is refused before anything is started, and named with them. */
import { describe, expect, test } from "vitest";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import { LAUNCH_OPTIONS } from "../../../src/node/options/options.ts";
import {
  idleReplicaOptions,
  requireUsableReplicas,
} from "../../../src/node/replicas/replica_options.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { startCommand } from "../../support/package/run_command.ts";

const launch = (args: readonly string[]) => parseOptions(LAUNCH_OPTIONS, args).values;
const OWN = "the server starts the ranks of all replicas itself";

describe("several replicas are refused", () => {
  test.each([
    [
      ["--tp", "4", "--nnodes", "4", "--dist-init-addr", "127.0.0.1:5000"],
      "--dp-size 2 together with --nnodes 4: 4 machines cannot have as many replicas each",
    ],
    [
      [
        ...["--nnodes", "2", "--dist-init-addr", "127.0.0.1:5000"],
        ...["--disaggregation-mode", "decode"],
      ],
      "together with --disaggregation-mode decode and --nnodes 2: replicas that share requests with",
    ],
    [["--nnodes", "2"], "--nnodes 2: --dist-init-addr has to say where the machines meet"],
    [
      ["--nnodes", "2", "--node-rank", "2", "--dist-init-addr", "127.0.0.1:5000"],
      "--node-rank 2: the machines of --nnodes 2 are 0 to 1",
    ],
    [
      [
        ...["--nnodes", "2", "--dist-init-addr", "127.0.0.1:5000"],
        ...["--disaggregation-mode", "prefill"],
      ],
      "together with --disaggregation-mode prefill and --nnodes 2: replicas that share requests with",
    ],
    [["--enable-dp-lm-head"], "--enable-dp-lm-head: --enable-dp-attention is not given"],
    [["--load-balance-method", "longest_queue"], "--load-balance-method"],
    [["--dp-size", "65"], "--dp-size"],
    [["--dp-size", "0"], "--dp-size"],
  ])("with %j", async (args, message) => {
    const command = startCommand(["launch_server", "--dp-size", "2", ...args]);
    expect(await command.code).toBe(2);
    expect(command.stderr()).toContain(message);
    expect(command.started).toEqual([]);
  });

  test("beside the processes of another launcher", () => {
    const options = launch(["--dp-size", "2"]);
    expect(() => requireUsableReplicas(options)).not.toThrow();
    expect(() => requireUsableReplicas(options, { isOuter: true })).toThrow(
      `Cannot use option --dp-size 2 together with a launcher of ranks such as mpiexec: ${OWN}`,
    );
    expect(() => requireUsableReplicas(launch([]), { isOuter: true })).not.toThrow();
  });
});

test.each(["prefill", "decode"])("a %s server may have replicas of processes here", (mode) => {
  const options = launch(["--dp", "2", "--nnodes", "1", "--disaggregation-mode", mode]);
  expect(() => requireUsableReplicas(options)).not.toThrow();
});

test("attention groups share requests with other servers wherever their ranks are", () => {
  const nodes = ["--nnodes", "2", "--dist-init-addr", "127.0.0.1:5000"];
  const groups = ["--dp", "2", "--tp", "2", "--enable-dp-attention"];
  const options = launch([...groups, ...nodes, "--disaggregation-mode", "prefill"]);
  for (const isOuter of [false, true]) {
    expect(() => requireUsableReplicas(options, { isOuter, ofGroups: true })).not.toThrow();
  }
});

test("a method without replicas changes nothing, and a line says so", () => {
  const idle = (args: readonly string[]) => idleReplicaOptions(launch(args));
  const line = "Option --load-balance-method changes nothing: there is one replica";
  expect(idle(["--load-balance-method", "cache_aware"])).toEqual([line]);
  expect(idle(["--load-balance-method", "cache_aware", "--dp", "2"])).toEqual([]);
  expect(idle([])).toEqual([]);
});

test("each replica is warmed up before the server is ready", async () => {
  const engines: ScriptedEngine[] = [];
  const command = startCommand(["launch_server", "--port", "0", "--dp", "2"], undefined, {
    start: async () => {
      engines.push(new ScriptedEngine());
      return engines.at(-1)!;
    },
  });
  await command.isReady;
  expect(engines.map(({ requests }) => requests.length)).toEqual([1, 1]);
  process.emit("SIGTERM", "SIGTERM");
  expect(await command.code).toBe(0);
});
