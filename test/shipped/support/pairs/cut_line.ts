/**
 * A line between two programs that may be cut: connections stay, and nothing comes through any more, as
 * when a cable is drawn. What waits comes through once it is mended.
 *
 * @module
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

interface Joined {
  readonly near: Socket;
  /** Absent while nothing was connected there. */
  far: Socket | undefined;
}

export class CutLine {
  /** Port that connections go on to. */
  target = 0;
  readonly #server: Server;
  readonly #joined = new Set<Joined>();
  #isCut = false;

  private constructor(server: Server) {
    this.#server = server;
    server.on("connection", (near) => this.#accept(near));
  }

  static async open(): Promise<CutLine> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    return new CutLine(server);
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  cut(): void {
    this.#isCut = true;
    for (const { near, far } of this.#joined) {
      for (const socket of [near, far]) socket?.unpipe().pause();
    }
  }

  mend(): void {
    this.#isCut = false;
    for (const one of [...this.#joined]) this.#flow(one);
  }

  async close(): Promise<void> {
    for (const one of [...this.#joined]) this.#end(one);
    this.#server.close();
    await once(this.#server, "close");
  }

  #accept(near: Socket): void {
    const one: Joined = { near, far: undefined };
    this.#joined.add(one);
    this.#watch(near, one);
    if (this.#isCut) near.pause();
    else this.#flow(one);
  }

  #flow(one: Joined): void {
    if (one.far === undefined) {
      one.far = connect(this.target, "127.0.0.1");
      this.#watch(one.far, one);
    }
    const { near, far } = one;
    // One end may have gone meanwhile, of which the other hears now.
    if (near.destroyed || far.destroyed) {
      this.#end(one);
      return;
    }
    near.pipe(far);
    far.pipe(near);
  }

  #watch(socket: Socket, one: Joined): void {
    socket.setNoDelay(true);
    socket.on("error", () => {});
    socket.once("close", () => {
      if (!this.#isCut) this.#end(one);
    });
  }

  #end(one: Joined): void {
    this.#joined.delete(one);
    one.near.destroy();
    one.far?.destroy();
  }
}
