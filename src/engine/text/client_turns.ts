/**
 * Jobs of several clients, which have their turns one after another.
 *
 * @module
 */

/** Whose it is; undefined where that is not known. */
interface Job {
  readonly client: string | undefined;
}

export class ClientTurns<T extends Job> {
  /** By client, the one whose turn it is first; each one's jobs in the order in which they came. */
  readonly #clients = new Map<string | undefined, Set<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(job: T): void {
    const jobs = this.#clients.get(job.client);
    if (jobs === undefined) this.#clients.set(job.client, new Set([job]));
    else jobs.add(job);
    this.#size += 1;
  }

  /** @returns Whether it was there. */
  delete(job: T): boolean {
    const jobs = this.#clients.get(job.client);
    if (jobs === undefined || !jobs.delete(job)) return false;
    if (jobs.size === 0) this.#clients.delete(job.client);
    this.#size -= 1;
    return true;
  }

  /** The first job of the client whose turn it is, which then waits for all others' turns. */
  next(): T | undefined {
    const [turn] = this.#clients;
    if (turn === undefined) return undefined;
    const [client, jobs] = turn;
    this.#clients.delete(client);
    this.#clients.set(client, jobs);
    const [job] = jobs;
    return job;
  }
}
