/** @throws {Error} with the problem, unless the condition holds. */
export function require(holds: boolean, problem: string): void {
  if (!holds) throw new Error(problem);
}
