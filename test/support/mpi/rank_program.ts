/**
 * A rank in tests: the first argument names what it does. It tells of itself by lines of its standard
 * output.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { deserialize } from "node:v8";
import { checkRanks } from "../../../src/node/mpi/check_ranks.ts";
import { joinGroup, meetOnce } from "../../../src/node/mpi/join_group.ts";
import type { MpiCommunicator } from "../../../src/node/mpi/mpi_communicator.ts";
import {
  allToAllRagged,
  gatherRagged,
  PROGRAMS,
  type ProgramName,
} from "../../parallel/group_programs.ts";

const [program = "", argument = ""] = process.argv.slice(2);
const FOREVER = 2 ** 30;

/** Whole lines, as several ranks write to one file. */
function say(line: string): Promise<void> {
  return new Promise((resolve) => process.stdout.write(`${line}\n`, () => resolve()));
}

/** States in which tests kill ranks: one of them never gets on, or none of them ends. */
const STATES: Readonly<Record<string, (communicator: MpiCommunicator) => Promise<void>>> = {
  /** Rank 1 computes, and the others wait for it. */
  async waiting(communicator) {
    if (communicator.rank === 1) await sleep(FOREVER);
    await meetOnce(communicator, "rows");
  },
  async exchanging(communicator) {
    for (let seed = 1; ; seed++) await gatherRagged(communicator, { rounds: 1, most: 1e5, seed });
  },
  async computing() {
    await sleep(FOREVER);
  },
  async ending(communicator) {
    if (communicator.rank === 1) await sleep(FOREVER);
  },
  /** Rank 1 has no memory left for its work. */
  async failing(communicator) {
    if (communicator.rank === 1) throw new Error("Cannot allocate 8 GiB: the device is full");
    await sleep(FOREVER);
  },
  /** Rank 1 asks for more and more memory of this process. */
  async growing(communicator) {
    const held: object[] = [];
    while (communicator.rank === 1) {
      held.push(Array.from({ length: 10_000 }, (_, i) => ({ i })));
      await sleep(0);
    }
    await sleep(FOREVER);
  },
  /** Whether a library has taken a signal from V8. */
  async signals({ rank }) {
    const caught = /^SigCgt:\s*([\da-f]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))![1]!;
    const isCaught = (BigInt(`0x${caught}`) >> BigInt(constants.signals.SIGFPE - 1)) & 1n;
    await say(`outcome of ${rank}: ${isCaught === 1n}`);
  },
  async times(communicator) {
    const times = await checkRanks(communicator);
    if (communicator.rank === 0) await say(`times: ${JSON.stringify(times)}`);
  },
  async "to all times"(communicator) {
    const { toAllTimes } = await import("./to_all_times.ts");
    const times = await toAllTimes(communicator);
    if (communicator.rank === 0) await say(`times: ${JSON.stringify(times)}`);
  },
  async "page times"(communicator) {
    const { pageTimes } = await import("./page_times.ts");
    const times = await pageTimes(communicator);
    if (communicator.rank === 0) await say(`times: ${JSON.stringify(times)}`);
  },
  /** The argument says what is asked. */
  async "step times"(communicator) {
    const { stepTimes } = await import("./step_times.ts");
    communicator.deadline = 300_000;
    const times = await stepTimes(communicator, JSON.parse(argument));
    if (communicator.rank === 0) await say(`times: ${JSON.stringify(times)}`);
  },
  /** The argument is a file that says what is asked. */
  async engine(communicator) {
    const { runEngineRank } = await import("./engine_rank.ts");
    const told = await runEngineRank(communicator, deserialize(readFileSync(argument)));
    if (told !== undefined) await say(`outcome of 0: ${JSON.stringify(told)}`);
  },
  async soak(communicator) {
    const { rounds, ...sizes } = JSON.parse(argument);
    const half = Math.ceil(rounds / 2);
    await gatherRagged(communicator, { rounds: half, ...sizes });
    await allToAllRagged(communicator, { rounds: rounds - half, ...sizes });
  },
};

await say(`rank ${process.env.PMI_RANK} is process ${process.pid}`);
if (program === "starting" && process.env.PMI_RANK === "1") await sleep(FOREVER);
const group = await joinGroup();
try {
  if (Object.hasOwn(PROGRAMS, program)) {
    const outcome = await PROGRAMS[program as ProgramName](group.communicator);
    await say(`outcome of ${group.communicator.rank}: ${JSON.stringify(outcome)}`);
    // The others must have time to say theirs: the test ends the group.
    if (group.communicator.failure !== undefined) await sleep(FOREVER);
  } else {
    if (argument !== "" && !["engine", "soak", "step times"].includes(program))
      group.communicator.deadline = Number(argument);
    await say(`rank ${group.communicator.rank} is ${program}`);
    await STATES[program]!(group.communicator);
  }
  await group.finish();
} catch (error) {
  await group.fail(error);
}
