/**
 * Rows of words and figures, aligned.
 *
 * @module
 */

/** Columns as wide as their widest cell; the first one flush left, the others flush right. */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [header, ...rows];
  const widths = header.map((_, c) => Math.max(...lines.map((line) => line[c]!.length)));
  const pad = (cell: string, c: number) =>
    c === 0 ? cell.padEnd(widths[c]!) : cell.padStart(widths[c]!);
  return lines.map((line) => `| ${line.map(pad).join(" | ")} |`).join("\n");
}
