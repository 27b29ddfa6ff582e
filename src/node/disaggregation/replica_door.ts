/**
 * Where decode servers meet a prefill server whose replicas are processes: each of these has the rooms of
 * its own requests, and here it is said which one has a room, and where it is met.
 *
 * @module
 */
import { Meeting } from "../../disaggregation/meeting.ts";
import type { PrefillMessage } from "../../disaggregation/messages.ts";
import { shortened } from "../../disaggregation/messages.ts";
import type { MetRoom } from "../../disaggregation/prefill_link.ts";
import type { DecodePeer } from "../../disaggregation/prefill_room.ts";
import { requireRoom } from "../../disaggregation/prefill_rooms.ts";
import type { GenerationChunk, GenerationEngine, GenerationRequest } from "../../generation.ts";

/** A request of which is told to which replica it has gone. */
export type RoutedRequest = GenerationRequest & {
  /** @param port Where decode servers meet that replica. */
  readonly onRoute?: ((port: number) => void) | undefined;
};

class DoorRoom implements MetRoom {
  readonly owner: string | undefined;
  /** Resolves once nothing more is to be said of it here. */
  readonly over: Promise<void>;
  #settle!: () => void;
  #peer: DecodePeer | undefined;
  #port: number | undefined;
  #isTold = false;

  constructor(owner: string | undefined) {
    this.owner = owner;
    this.over = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  get hasPeer(): boolean {
    return this.#peer !== undefined;
  }

  pair(peer: DecodePeer): void {
    this.#peer = peer;
    this.#tell();
  }

  /** Its request has gone to the replica that is met at this port. */
  moves(port: number): void {
    this.#port = port;
    this.#tell();
  }

  /** Its request has ended. */
  end(problem: string): void {
    if (this.#isTold || this.#peer === undefined) return;
    const { lease } = this.#peer;
    this.#say({ type: "failed", lease, problem: shortened(problem) });
  }

  /** Another decode server may come, or the same one again. */
  lose(): void {
    if (!this.#isTold) this.#peer = undefined;
  }

  // What is asked of pages is asked where they are.
  want(): void {}
  taken(): void {}
  skip(): void {}

  #tell(): void {
    if (this.#isTold || this.#peer === undefined || this.#port === undefined) return;
    const { lease } = this.#peer;
    this.#say({ type: "moved", lease, port: this.#port });
  }

  #say(message: PrefillMessage): void {
    this.#isTold = true;
    this.#peer!.channel.send(JSON.stringify(message));
    this.#settle();
  }
}

export class ReplicaDoor extends Meeting<DoorRoom> {
  /**
   * Does what a request asks for by one of the replicas.
   *
   * @param engine That chooses one, and tells of it.
   * @throws {InvalidRequestError} for a request without a room, or with that of another one.
   */
  async *generate(
    engine: GenerationEngine,
    request: GenerationRequest,
  ): AsyncGenerator<GenerationChunk, undefined> {
    const { bootstrap, requestId } = request;
    const name = requireRoom(bootstrap?.room, requestId);
    const ticket = bootstrap?.ticket;
    const owner = typeof ticket === "string" ? ticket : undefined;
    const room = this.meet({ room: name, owner }, () => new DoorRoom(owner));
    const routed: RoutedRequest = { ...request, onRoute: (port) => room.moves(port) };
    let problem = "the request has ended on the prefill server";
    try {
      return yield* engine.generate(routed);
    } catch (error) {
      problem = (error as Error).message;
      throw error;
    } finally {
      room.end(problem);
      this.ended(name, problem);
    }
  }
}
