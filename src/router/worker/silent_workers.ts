/**
 * Requests at workers that give no sign of life any more, as frozen ones do and those whose network is
 * cut: no event tells of it, and a client would wait for its whole time.
 *
 * @module
 */
import { HttpError } from "../../http/error_response.ts";
import { SilenceWatch } from "../../http/silence.ts";
import { Follower } from "./follower.ts";
import type { HealthCheckOptions } from "./health_checks.ts";
import { SignalGroup } from "./signal_group.ts";
import { ask, type Upstream, type UpstreamAnswer, type UpstreamRequest } from "./upstream.ts";
import type { Worker } from "./worker.ts";
import type { Workers } from "./workers.ts";

/** Whatever a worker answers there is a sign of life. */
const LIVENESS = "/liveness";
/** A worker is asked so often in the time of one health check; no more questions are open at once. */
const LOOKS = 5;

interface Surroundings {
  readonly workers: Workers;
  readonly upstream: Upstream;
  /** A worker is lost where as many checks of this time would have failed. */
  readonly health: Pick<HealthCheckOptions, "timeout" | "failureThreshold">;
  readonly onSilence: (worker: Worker) => void;
}

export class SilentWorkers {
  readonly #around: Surroundings;
  readonly #lines = new WeakMap<Worker, Line>();

  constructor(around: Surroundings) {
    this.#around = around;
  }

  /** Sends a request, which ends with `worker_failed` when its worker gives no sign of life. */
  readonly upstream: Upstream = async (request) => {
    const worker = this.#workerAt(request.url);
    return worker === undefined
      ? this.#around.upstream(request)
      : this.#lineTo(worker).send(request);
  };

  /** Nothing is asked any more. */
  stop(): void {
    for (const worker of this.#workers) this.#lines.get(worker)?.stop();
  }

  get #workers(): readonly Worker[] {
    const { all, draining } = this.#around.workers;
    return [...all, ...draining];
  }

  /** The address of one worker may begin that of another. */
  #workerAt(url: string): Worker | undefined {
    const ofUrl = this.#workers.filter((worker) => url.startsWith(`${worker.url}/`));
    return ofUrl.sort((a, b) => b.url.length - a.url.length)[0];
  }

  #lineTo(worker: Worker): Line {
    const known = this.#lines.get(worker);
    if (known !== undefined) return known;
    const line = new Line(worker, this.#around);
    this.#lines.set(worker, line);
    return line;
  }
}

/** What one worker is asked, and whether it says anything. */
class Line {
  readonly #worker: Worker;
  readonly #around: Surroundings;
  readonly #waiting = new Set<Follower>();
  readonly #watch: SilenceWatch;
  readonly #asking = new SignalGroup();
  #asks = 0;

  constructor(worker: Worker, around: Surroundings) {
    this.#worker = worker;
    this.#around = around;
    const { timeout, failureThreshold } = around.health;
    this.#watch = new SilenceWatch({
      interval: timeout / LOOKS,
      looks: LOOKS * failureThreshold,
      isWaiting: () => this.#waiting.size > 0,
      ping: () => void this.#ask(),
      onSilence: () => this.#end(),
    });
  }

  async send(request: UpstreamRequest): Promise<UpstreamAnswer> {
    const follower = new Follower(request.signal);
    const end = () => {
      follower.release();
      this.#waiting.delete(follower);
    };
    // Who ends it may neither read nor cancel the answer.
    follower.signal.addEventListener("abort", end, { once: true });
    this.#waiting.add(follower);
    this.#watch.start();
    try {
      const answer = await this.#around.upstream({ ...request, signal: follower.signal });
      this.#watch.heard();
      const { body } = answer;
      const read = async () => {
        try {
          const bytes = await body.read();
          this.#watch.heard();
          if (bytes === undefined) end();
          return bytes;
        } catch (error) {
          end();
          throw error;
        }
      };
      const cancel = () => {
        end();
        body.cancel();
      };
      return { ...answer, body: { read, cancel } };
    } catch (error) {
      end();
      throw error;
    }
  }

  stop(): void {
    this.#watch.stop();
    this.#asking.abort();
  }

  /** Each question has the whole time, as a worker may live and be slower than one check. */
  async #ask(): Promise<void> {
    if (this.#asks >= LOOKS) return;
    this.#asks += 1;
    const { upstream, health } = this.#around;
    const request = { url: this.#worker.url + LIVENESS, method: "GET", headers: {} };
    const time = health.timeout * health.failureThreshold;
    try {
      await this.#asking.run((signal) => ask(upstream, { ...request, signal }, time));
      this.#watch.heard();
    } catch {
      // No sign of life.
    } finally {
      this.#asks -= 1;
    }
  }

  #end(): void {
    const { timeout, failureThreshold } = this.#around.health;
    const seconds = (timeout * failureThreshold) / 1000;
    const state = `the worker has given no sign of life for ${seconds} s`;
    const error = new HttpError("worker_failed", `Cannot finish the answer: ${state}`);
    this.#around.onSilence(this.#worker);
    for (const follower of [...this.#waiting]) follower.abort(error);
  }
}
