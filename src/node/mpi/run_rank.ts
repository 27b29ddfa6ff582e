/**
 * A rank from its start to its end.
 *
 * @module
 */
import { checkRanks } from "./check_ranks.ts";
import { joinOrExit } from "./join_group.ts";

/** Does this process's part of its group's work and ends the process. */
export async function runRank(): Promise<never> {
  const group = await joinOrExit();
  try {
    const times = await checkRanks(group.communicator);
    if (group.communicator.rank === 0) {
      const lines = times.map(
        ({ bytes, microseconds }) =>
          `${`${bytes}`.padStart(9)}  ${microseconds.toFixed(0).padStart(8)}`,
      );
      const head = `${"bytes".padStart(9)}  ${"us".padStart(8)}`;
      const title = `Exchanges between ${group.communicator.size} ranks, bytes of each`;
      await written(`${title}:\n${[head, ...lines].join("\n")}\n`);
    }
    return await group.finish();
  } catch (error) {
    return await group.fail(error);
  }
}

/** Resolves once the text is out of this process, which ends without waiting for its streams. */
function written(text: string): Promise<void> {
  return new Promise((resolve) => process.stdout.write(text, () => resolve()));
}
