/**
 * Keeps two warnings of Dawn off the terminal: it writes them at every search for an adapter, of
 * limits that nothing here asks for, and has no switch for them.
 *
 * Dawn writes to the descriptor of the standard error, past Node. While it searches, which takes one
 * call, that descriptor is a file; what else is in the file then goes to the terminal. Where the
 * standard error is a file or a pipe nothing is done: what was opened for it could not be had back.
 *
 * @module
 */
import {
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isatty } from "node:tty";

const STDERR = 2;
const KNOWN =
  /^Warning: maxDynamic(Uniform|Storage)BuffersPerPipelineLayout artificially reduced from \d+ to \d+ to fit dynamic offset allocation limit\.\n/gm;

let ownsTerminal = false;

/** For a program, whose terminal it is; a library leaves descriptors alone. */
export function filterDawnWarnings(): void {
  ownsTerminal = true;
}

/** Once an adapter is found, as other threads open files from then on. */
export function leaveTerminal(): void {
  ownsTerminal = false;
}

/** Everything but the two warnings. */
export function withoutKnownWarnings(text: string): string {
  return text.replace(KNOWN, "");
}

/** Runs `search`, a call that ends before it returns, without Dawn's two warnings. */
export function searchQuietly<T>(search: () => T): T {
  if (!ownsTerminal || process.platform !== "linux" || !isatty(STDERR)) return search();
  const aside = prepare();
  if (aside === undefined) return search();
  const { terminal, folder, file } = aside;
  try {
    const isCaught = replace(STDERR, file);
    try {
      return search();
    } finally {
      if (isCaught) replace(STDERR, pathOf(terminal));
      writeSync(terminal, withoutKnownWarnings(readFileSync(file, "utf8")));
    }
  } finally {
    closeSync(terminal);
    rmSync(folder, { recursive: true, force: true });
  }
}

const pathOf = (descriptor: number) => `/proc/self/fd/${descriptor}`;

interface Aside {
  /** Another descriptor of the terminal. */
  readonly terminal: number;
  readonly folder: string;
  /** Empty. */
  readonly file: string;
}

/** Undefined where this user may not open the terminal again, or write a file: a start goes on. */
function prepare(): Aside | undefined {
  let terminal: number | undefined;
  try {
    terminal = openSync(pathOf(STDERR), "a");
    const folder = mkdtempSync(join(tmpdir(), "wisp-"));
    const file = join(folder, "stderr");
    writeFileSync(file, "");
    return { terminal, folder, file };
  } catch {
    if (terminal !== undefined) closeSync(terminal);
    return undefined;
  }
}

/**
 * Makes the descriptor one of `path`: a new one has the lowest number that is free.
 *
 * @returns Whether it got the number, and no thread that opened a file at the same moment.
 */
function replace(descriptor: number, path: string): boolean {
  closeSync(descriptor);
  const opened = openSync(path, "a");
  if (opened === descriptor) return true;
  closeSync(opened);
  return false;
}
