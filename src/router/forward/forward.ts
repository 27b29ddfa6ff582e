/**
 * One request of a client: attempts at workers until one of them answers, and the answer's way back.
 *
 * An attempt ends with the first bytes of an answer's body. Until then the client has got nothing, and
 * another worker may be asked; from then on no other is.
 *
 * @module
 */
import { EngineError, UnsupportedError } from "../../errors.ts";
import { cutConnection } from "../../http/connection_of.ts";
import { HttpError } from "../../http/error_response.ts";
import { parseJsonBytes, readBodyBytes } from "../../http/read_body.ts";
import { sleep } from "../../http/retries.ts";
import { promptText } from "../../parallel/balance/prompt_text.ts";
import { answerIdOf } from "../../server/guard/request_ids.ts";
import { NODE_SCHEME } from "../nodes/decode_nodes.ts";
import type { RouterEvent } from "../observer.ts";
import type { Policy } from "../policy/policy.ts";
import type { RouterContext } from "../router_context.ts";
import type { Outcome } from "../worker/breaker.ts";
import { requestHeaders } from "../worker/headers.ts";
import type { UpstreamAnswer, UpstreamRequest } from "../worker/upstream.ts";
import type { Target, Worker, WorkerRole } from "../worker/worker.ts";
import { type Attempt, type Flight, unavailable } from "./attempt.ts";
import { withReplica } from "./bootstrap_body.ts";
import { relay } from "./relay.ts";
import { clientLeft, RequestSignal } from "./request_signal.ts";
import { type Lent, SharedRequest } from "./shared_request.ts";
import { NO_WISH, namedReplica, targetsOf, type Wish } from "./wish.ts";

export interface Route {
  /** Path, as metrics name it. */
  readonly name: string;
  /** Which worker: the one that the policy chooses, or the first that is available. */
  readonly to: "chosen" | "first";
  /** Whether its body has a prompt that the policy may look at. */
  readonly hasPrompt?: boolean;
  /** Whether its body may name a replica of the worker. */
  readonly takesReplica?: boolean;
  /** Looks at a body that is not compressed. @throws {UnsupportedError} for what the router refuses. */
  readonly check?: (body: unknown) => void;
  /** Of an endpoint that one server answers alone: which, where they have roles. Default: prefill. */
  readonly role?: WorkerRole;
  /** Whether events of its streams have names, of which none is for errors of the router. */
  readonly isNamed?: boolean;
}

/** Another worker, or the same one a little later, may answer better. */
const RETRIED: readonly number[] = [408, 429, 500, 502, 503, 504];
/** A worker that answers so has more to do than it takes. */
const BUSY: readonly number[] = [408, 429, 503];

/**
 * @throws {HttpError} when no worker answers, and what reading the body and waiting for a place throw.
 */
export async function forward(
  context: RouterContext,
  request: Request,
  route: Route,
): Promise<Response> {
  const exchange = new Exchange(context, request, route);
  try {
    return await exchange.answer();
  } catch (error) {
    exchange.end(error);
    throw error;
  }
}

class Exchange {
  readonly #context: RouterContext;
  readonly #request: Request;
  readonly #route: Route;
  readonly #signal: RequestSignal;
  readonly #id: string;
  readonly #startedAt = performance.now();
  readonly #tried = new Set<Worker>();
  #leave = () => {};
  /** Where two servers share it. */
  #shared: SharedRequest | undefined;
  #attempts = 0;
  #status = 0;
  #isOver = false;

  constructor(context: RouterContext, request: Request, route: Route) {
    this.#context = context;
    this.#request = request;
    this.#route = route;
    this.#id = answerIdOf(request);
    this.#signal = new RequestSignal(request.signal, context.requestTimeout);
  }

  async answer(): Promise<Response> {
    const { bodies, maxBodyBytes, retries } = this.#context;
    const share = bodies.of(this.#request);
    const body =
      this.#request.method === "GET"
        ? undefined
        : await readBodyBytes(this.#request, { maxBytes: maxBodyBytes, share });
    // Once, as the pieces that it came in are no more.
    if (body !== undefined) share.hold(body.length);
    if (this.#route.to === "chosen")
      this.#leave = await this.#context.admission.enter(this.#signal.signal);
    const wish = body === undefined ? NO_WISH : await this.#wishOf(body);
    for (;;) {
      this.#attempts += 1;
      const attempt = await this.#attempt(wish, body);
      if (!mayRetry(attempt)) return this.#finish(attempt);
      if (this.#attempts >= retries.attempts) {
        this.#context.observer.exhausted(this.#route.name);
        return this.#finish(attempt);
      }
      await this.#waitAfter(attempt, this.#attempts);
    }
  }

  /** Called once, whether it is answered or not. */
  end(error?: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#leave();
    this.#signal.release();
    const { observer } = this.#context;
    const seconds = (performance.now() - this.#startedAt) / 1000;
    const kind = error === undefined ? errorOfStatus(this.#status) : codeOf(error);
    observer.request(this.#route.name, seconds, kind);
    const worker = [...this.#tried].at(-1)?.url ?? null;
    this.#tell("debug", `ended after ${seconds.toFixed(3)} s${kind ? `: ${kind}` : ""}`, {
      worker,
      status: this.#status || null,
      attempts: this.#attempts,
      seconds,
      error: kind ?? null,
    });
  }

  /** None where it cannot be read: what is wrong with the body, the worker says. */
  async #wishOf(body: Uint8Array): Promise<Wish> {
    const { policy, pairs, bodies, knowsReplicas } = this.#context;
    const { hasPrompt = false, check } = this.#route;
    const takesReplica = knowsReplicas && this.#route.takesReplica === true;
    const isPlain = !this.#request.headers.has("content-encoding");
    if (!isPlain && hasPrompt && pairs !== undefined) {
      const reason = "a router of prefill and decode servers writes into bodies where they meet";
      throw new UnsupportedError("content-encoding", reason);
    }
    const policies = pairs === undefined ? [policy] : Object.values(pairs.policies);
    const isChosenBy = policies.some(({ readsPrompts }) => readsPrompts) && hasPrompt;
    if (!isPlain || !(isChosenBy || check || takesReplica)) return NO_WISH;
    let json: unknown;
    const share = bodies.of(this.#request);
    try {
      const { signal } = this.#request;
      json = await parseJsonBytes(body, signal, share);
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      return NO_WISH;
    } finally {
      share.hold(body.length);
    }
    check?.(json);
    const prompt = isChosenBy ? promptText(json) : "";
    return { prompt, takesReplica, replica: takesReplica ? namedReplica(json) : undefined };
  }

  async #attempt(wish: Wish, body: Uint8Array | undefined): Promise<Attempt> {
    const { pairs } = this.#context;
    if (pairs !== undefined && this.#route.hasPrompt) {
      this.#shared ??= new SharedRequest(this.#lent(wish, body!));
      return this.#shared.attempt();
    }
    const target =
      pairs === undefined
        ? this.#choose("plain", this.#context.policy, wish)
        : this.#choose(this.#route.role ?? "prefill", pairs.policies.prefill, wish);
    if (target === undefined) return { error: unavailable("workers") };
    const flight = this.#send(target);
    try {
      const { upstream } = this.#context;
      const signal = this.#signal.signal;
      const sent = this.#bodyFor(target, wish, body);
      const answer = await upstream({ ...this.#sentTo(target.worker, sent), signal });
      return { answer, first: await answer.body.read(), flight };
    } catch (error) {
      const isWorkers = error instanceof HttpError && error.code === "worker_failed";
      flight.end(isWorkers ? "failure" : undefined);
      if (!isWorkers) throw error;
      return { error };
    }
  }

  /** With the replica that was chosen, unless the client has named it. */
  #bodyFor({ replica }: Target, wish: Wish, body: Uint8Array | undefined): Uint8Array | undefined {
    if (body === undefined || replica === undefined || wish.replica !== undefined) return body;
    const named = withReplica(body, replica);
    this.#context.bodies.of(this.#request).hold(body.length + named.length);
    return named;
  }

  #sentTo(worker: Worker, body: Uint8Array | undefined): Omit<UpstreamRequest, "signal"> {
    const { pathname, search } = new URL(this.#request.url);
    return {
      url: worker.url + pathname + search,
      method: this.#request.method,
      headers: requestHeaders(this.#request.headers, this.#id),
      body,
    };
  }

  #lent(wish: Wish, body: Uint8Array): Lent {
    return {
      context: this.#context,
      request: this.#request,
      signal: this.#signal.signal,
      body,
      choose: (role, policy) => this.#choose(role, policy, wish)?.worker,
      send: (worker) => this.#send(worker),
      sentTo: (worker, sent) => this.#sentTo(worker, sent),
      mayRetry,
      waitAfter: (attempt, attempts) => this.#waitAfter(attempt, attempts),
      tell: (text) => this.#tell("info", text, { attempt: this.#attempts }),
    };
  }

  #choose(role: WorkerRole, policy: Policy, wish: Wish): Target | undefined {
    const { workers, observer } = this.#context;
    const available = workers.availableOf(role);
    const untried = available.filter((worker) => !this.#tried.has(worker));
    const candidates = untried.length > 0 ? untried : available;
    if (candidates.length === 0 || this.#route.to === "first") return candidates[0];
    const choice = policy.choose(targetsOf(candidates, wish), wish.prompt);
    observer.decision(policy.name, choice.target.name);
    if (policy.readsPrompts) observer.prefix(choice.isBalancing ? undefined : choice.isHit);
    return choice.target;
  }

  #send(target: Target): Flight {
    const { worker } = target;
    // The newest is the last.
    this.#tried.delete(worker);
    this.#tried.add(worker);
    const ended = this.#context.workers.begin(target);
    let isOver = false;
    return {
      worker,
      end: (outcome) => {
        if (isOver) return;
        isOver = true;
        ended();
        if (outcome === undefined) return;
        worker.breaker.record(outcome);
        this.#context.observer.outcome(labelOf(worker), outcome);
      },
    };
  }

  /** Nothing is left of the attempt, and the next one may begin. */
  async #waitAfter(attempt: Attempt, attempts: number): Promise<void> {
    const { retries, observer } = this.#context;
    const { initialBackoff, maxBackoff, multiplier, jitter } = retries;
    const wait = Math.min(initialBackoff * multiplier ** (attempts - 1), maxBackoff);
    const milliseconds = wait * (1 + jitter * (2 * Math.random() - 1));
    const problem =
      "error" in attempt ? attempt.error.message : `it answered ${attempt.answer.status}`;
    if ("answer" in attempt) {
      attempt.answer.body.cancel();
      attempt.flight.end(outcomeOf(attempt.answer));
    }
    observer.retry(this.#route.name, attempts, milliseconds / 1000);
    const worker = [...this.#tried].at(-1)?.url ?? null;
    const text = `attempt ${attempts}${worker ? ` at ${worker}` : ""} failed: ${problem}`;
    this.#tell("info", text, { worker, attempt: attempts });
    await sleep(milliseconds, this.#signal.signal);
  }

  #finish(attempt: Attempt): Response {
    if ("error" in attempt) throw attempt.error;
    const { answer, first, flight } = attempt;
    this.#status = answer.status;
    const { signal } = this.#signal;
    // Also where nothing takes the answer any more.
    const onAbort = () => {
      flight.end();
      this.end(signal.reason);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    return relay(answer, {
      first,
      cut: () => cutConnection(this.#request),
      isGenerate: this.#route.name === "/generate",
      isNamed: this.#route.isNamed ?? false,
      ended: (error) => {
        const isWorkers = error instanceof HttpError && error.code === "worker_failed";
        if (isWorkers) {
          this.#context.observer.brokenStream(labelOf(flight.worker));
          const text = `failed at ${flight.worker.url}: ${error.message}`;
          this.#tell("warning", text, { worker: flight.worker.url });
        }
        if (error === undefined) flight.end(outcomeOf(answer));
        else flight.end(isWorkers ? "failure" : undefined);
        this.end(error);
      },
      left: () => {
        flight.end();
        this.end(clientLeft());
      },
    });
  }

  #tell(level: RouterEvent["level"], state: string, fields: RouterEvent["fields"]): void {
    const route = this.#route.name;
    const text = `Request ${this.#id} of ${route} ${state}`;
    const event = { message: text, x_request_id: this.#id, route, ...fields };
    this.#context.observer.event({ level, text, fields: event });
  }
}

/** By which figures name it: nodes, which come and go by random names, are one. */
function labelOf({ url }: Worker): string {
  return url.startsWith(NODE_SCHEME) ? NODE_SCHEME : url;
}

/** An answer may forbid it: a request that breaks one worker would break the others too. */
function forbidsRetry({ headers }: UpstreamAnswer): boolean {
  return headers.some(([name, value]) => name === "x-should-retry" && value === "false");
}

function mayRetry(attempt: Attempt): boolean {
  if ("error" in attempt) return true;
  return RETRIED.includes(attempt.answer.status) && !forbidsRetry(attempt.answer);
}

/** Answers to what a client did wrong are successes of the worker. */
function outcomeOf(answer: UpstreamAnswer): Outcome {
  if (BUSY.includes(answer.status) || forbidsRetry(answer)) return "busy";
  return answer.status >= 500 ? "failure" : "success";
}

function errorOfStatus(status: number): string | undefined {
  return status >= 400 ? `status_${status}` : undefined;
}

function codeOf(error: unknown): string {
  if (error instanceof EngineError) return error.code;
  return error instanceof DOMException && error.name === "AbortError" ? "client_left" : "internal";
}
