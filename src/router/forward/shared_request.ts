/**
 * A request that a prefill and a decode server share, or a prefill server and a decode node: attempts at
 * pairs. What a node has begun, a server goes on with where the node leaves.
 *
 * @module
 */
import { continued, type OtherAnswer } from "../nodes/continued_body.ts";
import type { DecodeNode } from "../nodes/decode_nodes.ts";
import { type GivenIds, givenIds } from "../nodes/given_ids.ts";
import { BegunAnswers } from "../nodes/node_answer.ts";
import type { Policy } from "../policy/policy.ts";
import type { PairSetting, RouterContext } from "../router_context.ts";
import type { Upstream, UpstreamRequest } from "../worker/upstream.ts";
import type { Worker, WorkerRole } from "../worker/worker.ts";
import { type Attempt, type Flight, unavailable } from "./attempt.ts";
import { type BootstrapFields, hostOf, newRoom, withBootstrap } from "./bootstrap_body.ts";
import { askPair } from "./pair.ts";

/** What the exchange of a client lends to its attempts. */
export interface Lent {
  readonly context: RouterContext;
  readonly request: Request;
  readonly signal: AbortSignal;
  /** As the client sent it. */
  readonly body: Uint8Array;
  readonly choose: (role: WorkerRole, policy: Policy) => Worker | undefined;
  readonly send: (worker: Worker) => Flight;
  readonly sentTo: (worker: Worker, body: Uint8Array) => Omit<UpstreamRequest, "signal">;
  /** Whether another attempt may come to more. */
  readonly mayRetry: (attempt: Attempt) => boolean;
  /** Leaves an attempt, the first being 1, and waits for as long as is right before the next one. */
  readonly waitAfter: (attempt: Attempt, attempts: number) => Promise<void>;
  readonly tell: (text: string) => void;
}

/** Where prefill servers meet others whose requests name no port. */
const DEFAULT_PORT = 8998;

/** Who decodes: a server, or a node and how it is asked. */
interface Decoder {
  readonly worker: Worker;
  readonly upstream: Upstream;
  readonly ofPrefill: BootstrapFields;
  readonly ofDecode: BootstrapFields;
  /** To be called when the prefill server's part is over. */
  readonly prefilled?: () => void;
}

export class SharedRequest {
  readonly #lent: Lent;
  readonly #pairs: PairSetting;
  /** Of a request that a node was sent: it goes to no other one. */
  #begun: BegunAnswers | undefined;
  /** Whether the client has got something of it: until then what the node has told counts for nothing. */
  #isBegun = false;

  /** @param lent Of a router whose workers have roles. */
  constructor(lent: Lent) {
    this.#lent = lent;
    this.#pairs = lent.context.pairs!;
  }

  /** @throws the signal's reason, and what is no worker's fault. */
  async attempt(): Promise<Attempt> {
    const { context, request, body } = this.#lent;
    const { policies } = this.#pairs;
    const nodes = this.#begun === undefined ? context.nodes : undefined;
    const share = context.bodies.of(request);
    const ids = nodes?.mayAnswer(request, body)
      ? await givenIds(body, { signal: request.signal, share })
      : undefined;
    const prefill = this.#lent.choose("prefill", policies.prefill);
    if (prefill === undefined) return { error: unavailable("prefill servers") };
    const node = ids && nodes!.choose(request, body);
    const room = newRoom();
    const decoder = node ? this.#asNode(node, prefill, { room, ids }) : this.#asServer();
    if (decoder === undefined) return { error: unavailable("decode servers") };
    return this.#ask(prefill, decoder, room);
  }

  #asServer(): Decoder | undefined {
    const { choose, context } = this.#lent;
    const worker = choose("decode", this.#pairs.policies.decode);
    if (worker === undefined) return undefined;
    const begun = begunField(this.#begun, this.#isBegun);
    return { worker, upstream: context.upstream, ofPrefill: begun, ofDecode: begun };
  }

  #asNode(
    node: DecodeNode,
    prefill: Worker,
    { room, ids }: { readonly room: number; readonly ids: GivenIds },
  ): Decoder {
    const [seed] = crypto.getRandomValues(new Uint32Array(1));
    const begun = new BegunAnswers(seed!);
    this.#begun = begun;
    const { owner, ticket } = this.#lent.context.nodes!.ticketFor(node);
    const port = prefill.bootstrapPort ?? DEFAULT_PORT;
    const place = { host: hostOf(prefill), port, room: String(room) };
    let tellPrefilled = () => {};
    const prefilled = new Promise<void>((resolve) => {
      tellPrefilled = resolve;
    });
    const asked = { begun, ids, prefilled, ...place };
    const goOn = () => this.#goOn();
    // Events of several answers come in any order.
    const isSingle = () => begun.tokens.length < 2;
    return {
      worker: node.worker,
      upstream: async (request) =>
        continued(await node.link.ask(request, asked), { isSingle, goOn }),
      ofPrefill: { bootstrap_ticket: owner },
      ofDecode: { bootstrap_port: port, bootstrap_ticket: ticket, ...begunField(begun, false) },
      prefilled: tellPrefilled,
    };
  }

  /** The answer of a server, from its beginning, to a request that a node has left. */
  async #goOn(): Promise<OtherAnswer> {
    const { mayRetry, waitAfter, context } = this.#lent;
    this.#isBegun = true;
    this.#lent.tell("goes on at a server, as its decode node has left");
    for (let attempts = 1; ; attempts++) {
      const attempt = await this.attempt();
      if (mayRetry(attempt) && attempts < context.retries.attempts) {
        await waitAfter(attempt, attempts);
        continue;
      }
      if ("error" in attempt) throw attempt.error;
      const { answer, first, flight } = attempt;
      const end: OtherAnswer["end"] = (isBroken) => {
        if (isBroken === undefined) flight.end();
        else flight.end(isBroken ? "failure" : "success");
      };
      return { answer, first, end };
    }
  }

  async #ask(prefill: Worker, decoder: Decoder, room: number): Promise<Attempt> {
    const { context, request, signal, body: plain, send, sentTo } = this.#lent;
    const { worker: decode, upstream } = decoder;
    const prefillBody = withBootstrap(plain, prefill, { room, more: decoder.ofPrefill });
    const isSame = decoder.ofPrefill === decoder.ofDecode;
    const decodeBody = isSame
      ? prefillBody
      : withBootstrap(plain, prefill, { room, more: decoder.ofDecode });
    context.bodies.of(request).hold(plain.length + prefillBody.length * (isSame ? 1 : 2));
    const [prefillFlight, flight] = [send(prefill), send(decode)];
    let [isPrefilled, isDecided] = [false, false];
    try {
      const attempt = await askPair({
        upstream: context.upstream,
        decodeUpstream: upstream,
        prefill: sentTo(prefill, prefillBody),
        decode: sentTo(decode, decodeBody),
        signal,
        prefilled: (answer) => {
          isPrefilled = true;
          decoder.prefilled?.();
          if (answer !== undefined && answer.status < 400) prefillFlight.end("success");
          else if (isDecided) prefillFlight.end();
        },
      });
      isDecided = true;
      const isOver = isPrefilled || "error" in attempt || attempt.answer.status >= 400;
      // Else the prefill server's part ends behind the beginning of the answer.
      if (isOver) prefillFlight.end(attempt.blamed === "prefill" ? "failure" : undefined);
      if ("error" in attempt) {
        flight.end(attempt.blamed === "decode" ? "failure" : undefined);
        return { error: attempt.error };
      }
      const { answer, first, blamed } = attempt;
      if (attempt.of === "decode" && blamed !== "prefill") return { answer, first, flight };
      // What follows is told of the decode server, whose fault it is not.
      flight.end();
      return { answer, first, flight };
    } catch (error) {
      prefillFlight.end();
      flight.end();
      throw error;
    }
  }
}

function begunField(begun: BegunAnswers | undefined, isBegun: boolean): BootstrapFields {
  if (begun === undefined) return {};
  const { seed, tokens } = begun;
  return { bootstrap_begun: { seed, tokens: isBegun ? tokens : [] } };
}
