/**
 * The program of a rank process.
 *
 * @module
 */
import { runRank } from "./run_rank.ts";

await runRank();
