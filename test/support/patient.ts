/**
 * How long tests wait for what they expect to happen: longer than they have themselves, so that theirs
 * is the only limit. A busy machine takes many times what a free one does.
 *
 * @module
 */

/** For `vi.waitFor`, `vi.waitUntil` and `expect.poll`, which give up after a second else. */
export const PATIENT = { timeout: 600_000, interval: 5 } as const;
