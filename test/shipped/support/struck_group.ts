/**
 * A server of two nodes of which one process is killed or frozen in some state: what its client saw,
 * how the others ended, and how long it took.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort, isAlive } from "../../support/mpi/processes.ts";
import { until } from "../../support/until.ts";
import { type StartedWisp, startWisp } from "./wisp.ts";

export const STATES = [
  ...(["starting", "loading", "idle", "prefill", "decode", "exchange", "draining"] as const),
];
export type State = (typeof STATES)[number];
/** The launcher of node 0 is the server. */
export const PROCESSES = ["launcher 0", "rank 0", "launcher 1", "rank 1"] as const;
export type ProcessName = (typeof PROCESSES)[number];

export interface Strike {
  readonly state: State;
  readonly process: ProcessName;
  readonly signal: "SIGKILL" | "SIGSTOP";
}

export interface Outcome extends Strike {
  /** Of the request that ran: a status, the code of the last event, or that the connection broke. */
  readonly client: string;
  /** From the signal to the end of the client's request; of a group without one undefined. */
  readonly clientSeconds: number | undefined;
  /** Exit codes of the launchers; of one that is struck by SIGSTOP once it may go on. */
  readonly codes: readonly (number | null)[];
  /** From the signal until every process that was not struck has ended. */
  readonly seconds: number;
  /** What was said last. */
  readonly said: string;
  /** Processes that are still there. */
  readonly left: readonly string[];
}

/** Seconds that nodes and ranks wait for each other while they start. */
export const START_SECONDS = 20;

const childrenOf = (pid: number): number[] => {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
    return text === "" ? [] : text.split(" ").map(Number);
  } catch {
    return [];
  }
};
const isRank = (pid: number): boolean => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("rank_process");
  } catch {
    return false;
  }
};
/** Process ids of a launcher's ranks, in their order. */
export const ranksOf = (pid: number): readonly number[] => childrenOf(pid).filter(isRank);

async function rankOf({ process: { pid } }: StartedWisp): Promise<number> {
  let found: number | undefined;
  await until(() => {
    [found] = ranksOf(pid!);
    if (found === undefined) throw new Error("Cannot find a rank of the launcher");
  });
  return found!;
}

/** Asks for more than can be computed in the time, and says how that ends. */
async function ask(url: string, body: object, onChunk: () => void): Promise<string> {
  try {
    const response = await fetch(`${url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ stream: true, ignore_eos: true, ...body }),
    });
    if (response.status !== 200) return `status ${response.status}`;
    let text = "";
    for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
      text += part;
      onChunk();
    }
    const code = /"code":(\d+)/.exec(text)?.[1];
    if (code !== undefined) return `event with ${code}`;
    return text.includes("[DONE]") ? "the whole answer" : "a stream that ends";
  } catch {
    return "a broken connection";
  }
}

const LISTENS = /Listening on (http:\/\/[^\s"]+)\S*\n/;
const LONG = "Tell me about the sea, the wind and the weather of the north. ".repeat(12);

/** Starts a group with these options, strikes one of its processes, and waits for what comes of it. */
export async function strike(args: readonly string[], given: Strike): Promise<Outcome> {
  const { state, signal } = given;
  const address = `127.0.0.1:${await freePort()}`;
  const command =
    state === "exchange"
      ? ["check_ranks"]
      : ["launch_server", "--port", "0", ...args, "--drain-timeout", "60"];
  const group = ["--tp-size", "2", "--nnodes", "2", "--dist-init-addr", address];
  const launchers = [0, 1].map((node) => {
    const place = ["--node-rank", `${node}`, "--dist-timeout", `${START_SECONDS}`];
    return startWisp([...command, ...group, ...place]);
  });
  const ranks = await Promise.all(launchers.map(rankOf));
  const pids: Readonly<Record<ProcessName, number>> = {
    "launcher 0": launchers[0]!.process.pid!,
    "rank 0": ranks[0]!,
    "launcher 1": launchers[1]!.process.pid!,
    "rank 1": ranks[1]!,
  };
  const reached = await reach(state, launchers[0]!);
  const struck = pids[given.process];
  const begun = performance.now();
  const secondsSince = () => (performance.now() - begun) / 1000;
  process.kill(struck, signal);
  // Of a frozen process is heard once there is something to do; one that is killed is missed at once.
  const client = signal === "SIGSTOP" ? (reached.client ?? reached.askLater?.()) : reached.client;
  let clientSeconds: number | undefined;
  const seen = client?.then((text) => {
    clientSeconds = secondsSince();
    return text;
  });
  const others = Object.values(pids).filter((pid) => pid !== struck);
  while (others.some(isAlive) && secondsSince() < 90) await sleep(5);
  const seconds = secondsSince();
  if (signal === "SIGSTOP") {
    try {
      process.kill(struck, "SIGCONT");
    } catch {
      // Its launcher has killed it.
    }
  }
  const name = (pid: number) => PROCESSES.find((one) => pids[one] === pid)!;
  for (let turn = 0; turn < 1000 && isAlive(struck); turn++) await sleep(5);
  const left = Object.values(pids).filter(isAlive);
  for (const pid of left) process.kill(pid, "SIGKILL");
  const codes = (await Promise.all(launchers.map(({ closed }) => closed))).map(([code]) => code);
  const said = launchers.map(({ stderr }) => stderr().trim().split("\n").at(-1)!).join(" | ");
  const outcome = { codes, seconds, said, left: left.map(name) };
  return { ...given, client: (await seen) ?? "nothing to connect to", clientSeconds, ...outcome };
}

/** Brings the group into the state; what becomes of its client, where it has one. */
async function reach(
  state: State,
  server: StartedWisp,
): Promise<{ readonly client?: Promise<string>; readonly askLater?: () => Promise<string> }> {
  if (state === "starting") return {};
  if (state === "exchange") {
    await server.sees(/Exchanges between 2 ranks/);
    return {};
  }
  if (state === "loading") {
    await server.sees(/Adapter|adapter/);
    return {};
  }
  await server.sees(LISTENS);
  await server.sees(/ready/i);
  const url = LISTENS.exec(server.output())![1]!;
  const endless = { prompt: "Hello", max_tokens: 1900 };
  if (state === "idle") return { askLater: () => ask(url, endless, () => {}) };
  let chunks = 0;
  let onFirst = () => {};
  const first = new Promise<void>((resolve) => {
    onFirst = resolve;
  });
  const asked = state === "prefill" ? { prompt: LONG, max_tokens: 1200 } : endless;
  const client = ask(url, asked, () => {
    chunks += 1;
    onFirst();
  });
  if (state === "prefill") {
    await sleep(150);
    if (chunks > 0) throw new Error("Cannot strike in prefill: it has ended");
    return { client };
  }
  await first;
  if (state === "draining") {
    server.process.kill("SIGTERM");
    await server.sees(/Stopping/);
  }
  return { client };
}
