/**
 * A server of the embedded model as the program has it, in this process, whose state can be looked
 * at.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Engine } from "../../../src/engine/engine.ts";
import type { GrammarService } from "../../../src/engine/grammar/grammar_service.ts";
import { RemoteGrammarService } from "../../../src/engine/grammar/remote_grammar_service.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { RemoteTextService } from "../../../src/engine/text/remote_text_service.ts";
import { readTextFiles } from "../../../src/engine/text/text_files.ts";
import { ProfileFiles } from "../../../src/node/observe/profile_files.ts";
import { type RunningServer, serve } from "../../../src/node/serve/http.ts";
import { grammarThread } from "../../../src/node/worker_grammar_service.ts";
import { textThread } from "../../../src/node/worker_text_service.ts";
import { createApp } from "../../../src/server/app.ts";
import { type BuiltWorker, buildWorker } from "../engines/built_worker.ts";
import { openEngine } from "../engines/engine.ts";

/** What hostile clients must not leave behind. */
export interface Leftovers {
  readonly running: number;
  readonly queued: number;
  /** Slots of the cache that sequences hold, and tokens of requests that have not begun. */
  readonly usedTokens: number;
  readonly queuedTokens: number;
  /** Sessions of grammars that are open. */
  readonly sessions: number;
  /** Connections of clients. */
  readonly sockets: number;
  /** Listeners of the process, and watchers of its signals among them. */
  readonly listeners: number;
}

export class NeighbourServer {
  readonly engine: Engine;
  readonly server: RunningServer;
  /** Errors that were the server's own fault. */
  readonly errors: readonly unknown[];
  readonly #sessions: { open: number };
  readonly #workers: readonly BuiltWorker[];
  readonly #folder: string;

  private constructor(
    made: Pick<NeighbourServer, "engine" | "server" | "errors">,
    held: {
      readonly sessions: { open: number };
      readonly workers: readonly BuiltWorker[];
      /** Of profiles. */
      readonly folder: string;
    },
  ) {
    this.engine = made.engine;
    this.server = made.server;
    this.errors = made.errors;
    this.#sessions = held.sessions;
    this.#workers = held.workers;
    this.#folder = held.folder;
  }

  static async open(options: Partial<LoadOptions> = {}): Promise<NeighbourServer> {
    const [grammars, texts] = await Promise.all([
      buildWorker("grammar_worker"),
      buildWorker("text_worker"),
    ]);
    const sessions = { open: 0 };
    const engine = await openEngine({
      grammarService: (model) =>
        counting(new RemoteGrammarService(model, grammarThread(grammars.url)), sessions),
      textService: async ({ source, options: text }) =>
        RemoteTextService.open({
          start: textThread(texts.url),
          files: await readTextFiles(source),
          options: text,
        }),
      ...options,
    });
    const errors: unknown[] = [];
    const folder = mkdtempSync(join(tmpdir(), "wisp-profiles-"));
    const app = createApp(engine, {
      toolCallParser: "qwen25",
      profiles: new ProfileFiles(engine, { folder, onError: (error) => errors.push(error) }),
      reportError: (error) => errors.push(error),
    });
    const server = await serve(app, { host: "127.0.0.1", port: 0 });
    return new NeighbourServer(
      { engine, server, errors },
      { sessions, workers: [grammars, texts], folder },
    );
  }

  leftovers(): Leftovers {
    const { runningRequests, queuedRequests, usedTokens, queuedTokens } = this.engine.status();
    const resources = process.getActiveResourcesInfo();
    return {
      running: runningRequests,
      queued: queuedRequests,
      usedTokens,
      queuedTokens,
      sessions: this.#sessions.open,
      sockets: resources.filter((name) => name === "TCPSocketWrap").length,
      listeners: process
        .eventNames()
        .reduce((sum, name) => sum + process.listenerCount(name as string), 0),
    };
  }

  async close(): Promise<void> {
    await this.server.close(0);
    await this.engine.close();
    for (const worker of this.#workers) worker.remove();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function counting(service: GrammarService, sessions: { open: number }): GrammarService {
  return {
    async open(constraint) {
      sessions.open++;
      try {
        const session = await service.open(constraint);
        const close = session.close.bind(session);
        let isOpen = true;
        session.close = () => {
          if (isOpen) sessions.open--;
          isOpen = false;
          close();
        };
        return session;
      } catch (error) {
        sessions.open--;
        throw error;
      }
    },
    close: () => service.close(),
  };
}

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** Bytes of this thread's heap and of buffers outside of it, once what is left over is collected. */
export async function heldBytes(): Promise<number> {
  // What ends with the turn is held until then.
  await new Promise((resolve) => setImmediate(resolve));
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
