/**
 * The program of a rank process: its argument says what the rank does.
 *
 * @module
 */
import { runRank } from "./run_rank.ts";

if (process.argv[2] === "serve") {
  const { serveRank } = await import("../ranks/serve_rank.ts");
  await serveRank();
} else {
  await runRank();
}
