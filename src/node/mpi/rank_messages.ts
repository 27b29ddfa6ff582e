/**
 * What a launcher and its ranks say to each other over the channel that Node gives a child process,
 * and what a rank finds in its environment.
 *
 * @module
 */

/** From a rank. */
export type RankMessage =
  /** MPI has started. */
  | { readonly type: "started" }
  /** It cannot go on. */
  | { readonly type: "failed"; readonly reason: string }
  /** All ranks have done their work: it waits for the end. */
  | { readonly type: "done" }
  /** What its program says to the program around the launcher, as plain data. */
  | { readonly type: "said"; readonly message: unknown };

/** From a launcher. */
export type LauncherMessage =
  | { readonly type: "beat" }
  /** All ranks of all nodes have said that they are done. */
  | { readonly type: "end" }
  /** The group has ended. */
  | { readonly type: "lost"; readonly reason: string }
  /** What the program around the launcher says to that of the rank, as plain data. */
  | { readonly type: "said"; readonly message: unknown };

/** Variables of a rank's environment, as its launcher sets them. */
export const RANK_VARIABLES = {
  /** Process id of the launcher. */
  launcher: "WISP_LAUNCHER_PID",
  /** Path of the library that talks to MPI. */
  shim: "WISP_MPI_SHIM",
  /** Milliseconds between the launcher's signs of life. */
  beat: "WISP_BEAT_MS",
  /** Milliseconds that ranks wait for each other while they start. */
  timeout: "WISP_DIST_TIMEOUT_MS",
  /** Set where the launcher around its own one has to hear from it that it ends in order. */
  signsOff: "WISP_RANK_SIGNS_OFF",
  /** Numbers of the CPUs that it runs on, as "0,1"; absent where it takes any. */
  cpus: "WISP_RANK_CPUS",
} as const;

/** Signs of life of a launcher that may be missing. */
export const MISSES = 3;
