/**
 * Circles of files that import each other.
 *
 * @module
 */

/**
 * One line for each circle that is met on the way through all imports: "a.ts > b.ts > a.ts".
 *
 * @param imports What each file imports.
 */
export function importCircles(imports: ReadonlyMap<string, readonly string[]>): string[] {
  const circles: string[] = [];
  const seen = new Set<string>();
  const way: string[] = [];
  const visit = (file: string): void => {
    const at = way.indexOf(file);
    if (at >= 0) circles.push([...way.slice(at), file].join(" > "));
    if (seen.has(file)) return;
    seen.add(file);
    way.push(file);
    for (const next of imports.get(file) ?? []) visit(next);
    way.pop();
  };
  for (const file of imports.keys()) visit(file);
  return circles;
}
