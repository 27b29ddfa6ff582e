/**
 * How a page tells the test that opened it what it found.
 *
 * @module
 */

/** Runs `program` and posts what it returns, or what it throws. */
export async function reporting(program: () => Promise<unknown>): Promise<void> {
  const report = await program().then(
    (found) => ({ found }),
    (error: unknown) => ({ problem: describe(error) }),
  );
  await fetch("report", { method: "POST", body: JSON.stringify(report) });
}

/** The error, where it comes from, and what is behind it. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { name, message, stack = "", cause } = error;
  const behind = cause === undefined ? "" : `\nbecause of ${describe(cause)}`;
  return `${name}: ${message}\n${stack}${behind}`;
}
