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
    const { rank, size } = group.communicator;
    // Tells too that all of them have come.
    if (rank === 0) await written(`Exchanges between ${size} ranks, bytes of each:\n`);
    const times = await checkRanks(group.communicator);
    if (rank === 0) {
      const lines = times.map(
        ({ bytes, microseconds }) =>
          `${`${bytes}`.padStart(9)}  ${microseconds.toFixed(0).padStart(8)}`,
      );
      const head = `${"bytes".padStart(9)}  ${"us".padStart(8)}`;
      await written(`${[head, ...lines].join("\n")}\n`);
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
