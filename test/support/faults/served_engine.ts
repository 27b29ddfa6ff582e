/**
 * A server of the embedded model whose requests are all sent at once, as its awaits are watched.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { GrammarModel } from "../../../src/engine/grammar/grammar_service.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import type { EngineStatus, GenerationEngine } from "../../../src/generation.ts";
import { othersTurn } from "../../../src/turns.ts";
import { EMBEDDED_MODEL } from "../checkpoints/embedded_model.ts";
import { folderSource } from "../checkpoints/folder_source.ts";
import { device } from "../devices/gpu.ts";
import type { AwaitHook, WatchedModules, WatchedSources } from "./watched_awaits.ts";

/** Method, path and body of a request, and what its client sends behind the answer; bytes are sent as gzip. */
export type Sent = readonly [
  method: string,
  path: string,
  body?: object | Uint8Array<ArrayBuffer> | undefined,
  behind?: readonly Sent[],
];

export interface Scenario {
  readonly name: string;
  readonly options: Partial<LoadOptions>;
  /** Whether the engine, its texts and its grammars are each behind a port. Default false. */
  readonly isRemote?: boolean;
  /** Whether it is left to the long campaign. Default false. */
  readonly isLong?: boolean;
  /** Whether the clock goes on by more than a slice at each look. Default false. */
  readonly isSlow?: boolean;
  /** By name; each wave is sent at once, behind the end of the one before. */
  readonly waves: readonly Readonly<Record<string, Sent>>[];
}

/** In place of the status of an answer that breaks off. */
export const BROKEN = 0;

/** What an answer tells, without its times and ids. */
export interface Told {
  readonly status: number;
  readonly text: string;
}

export interface Leaving {
  readonly name: string;
  readonly signal: AbortSignal;
}

export interface ServedEngine {
  /** Errors that were the server's own fault. */
  readonly errors: unknown[];
  status(): EngineStatus;
  /**
   * Sends all requests.
   *
   * @param hook Of the awaits until they are answered.
   * @param leaving Whose client leaves when the signal says so.
   * @returns Their answers, by name.
   */
  run(hook?: AwaitHook, leaving?: Leaving): Promise<Map<string, Told>>;
  close(): Promise<void>;
}

export async function openServed(
  { modules, setHook }: WatchedSources,
  { options, isRemote = false, waves }: Scenario,
): Promise<ServedEngine> {
  const { Engine } = modules["engine/engine"];
  const given: Partial<LoadOptions> = isRemote ? { ...options, ...services(modules) } : options;
  const engine = await Engine.load(folderSource(EMBEDDED_MODEL), {
    ...{ device, triesInvariance: false },
    ...given,
  } as LoadOptions);
  const served: GenerationEngine = isRemote ? await behindPort(modules, engine) : engine;
  const errors: unknown[] = [];
  const folder = mkdtempSync(join(tmpdir(), "wisp-profiles-"));
  const { ProfileFiles } = modules["node/observe/profile_files"];
  const app = modules["server/app"].createApp(served, {
    toolCallParser: "qwen25",
    reportError: (error) => errors.push(error),
    profiles: new ProfileFiles(served, { folder, onError: (error) => errors.push(error) }),
  });
  const askAll = async ([method, path, body, behind = []]: Sent, signal?: AbortSignal) => {
    const told = [await ask([method, path, body], signal)];
    for (const next of behind) told.push(await ask(next, signal));
    const statuses = told.map(({ status }) => status);
    // What comes behind a failure may fail for it alone, as a profile that ended with its step.
    const isBroken = statuses.length > 1 && statuses.some((one) => one !== 200);
    const status = isBroken ? BROKEN : statuses[0]!;
    return { status, text: told.map(({ text }) => text).join("") };
  };
  const ask = async ([method, path, body]: Sent, signal?: AbortSignal): Promise<Told> => {
    const isZipped = body instanceof Uint8Array;
    const headers = { "content-type": "application/json", ...(isZipped && GZIP) };
    const request = {
      method,
      ...(body && { headers, body: isZipped ? body : JSON.stringify(body) }),
    };
    // It is to wait until the others are answered.
    if (path.includes("?timeout=")) await started(engine);
    try {
      const response = await app.request(path, { ...request, ...(signal && { signal }) });
      return { status: response.status, text: withoutTimes(await response.text()) };
    } catch (error) {
      // The connection breaks, where that comes behind the first bytes.
      return { status: BROKEN, text: String(error) };
    }
  };
  const isAtRest = () => {
    const { usedTokens, runningRequests, queuedRequests, healthy } = engine.status();
    return !healthy || usedTokens + runningRequests + queuedRequests === 0;
  };
  const settle = async () => {
    while (!isAtRest()) await new Promise((resolve) => setTimeout(resolve, 1));
  };
  return {
    errors,
    status: () => engine.status(),
    async run(hook, leaving) {
      const told = new Map<string, Told>();
      await engine.flushCache({ stored: true });
      for (const wave of waves) {
        const one = async ([name, sent]: [string, Sent]) => {
          told.set(name, await askAll(sent, leaving?.name === name ? leaving.signal : undefined));
        };
        setHook(hook);
        await Promise.all(Object.entries(wave).map(one));
        await settle();
        setHook(undefined);
        await engine.flushCache();
      }
      return told;
    },
    async close() {
      await engine.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const GZIP = { "content-encoding": "gzip" };

async function started(engine: GenerationEngine): Promise<void> {
  for (let i = 0; i < 50 && engine.status().runningRequests === 0; i++) {
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** Times and ids; events of several choices come in the order in which they were ready. */
function withoutTimes(text: string): string {
  const times =
    /"(id|created|e2e_latency|queue_time|request_time|cached_tokens|spec_[a-z_]+)":("[^"]*"|[\d.e-]+)/g;
  const same = text.replace(times, "").replace(/wisp-[\w.-]+\.trace/, "trace");
  return same.startsWith("data: ") ? same.split("\n\n").sort().join("\n\n") : same;
}

/** Services of texts and grammars whose other ends are in this thread too, a turn away. */
function services(modules: WatchedModules): Partial<LoadOptions> {
  const { RemoteTextService } = modules["engine/text/remote_text_service"];
  const { serveText } = modules["engine/text/serve_text"];
  const { readTextFiles } = modules["engine/text/text_files"];
  const { RemoteGrammarService } = modules["engine/grammar/remote_grammar_service"];
  const { serveGrammars } = modules["engine/grammar/serve_grammars"];
  return {
    textService: async ({ source, options }) =>
      RemoteTextService.open({
        start: ({ onAnswer, onEnd }) => {
          const take = serveText((answer) => setImmediate(onAnswer, structuredClone(answer)));
          const send = (question: Parameters<typeof take>[0]) => {
            setImmediate(() => {
              // What a thread does not catch ends it.
              take(structuredClone(question)).catch((error) => onEnd(String(error), false));
            });
          };
          return { send, terminate: () => {} };
        },
        files: await readTextFiles(source),
        options,
      }),
    grammarService: (model: GrammarModel) =>
      new RemoteGrammarService(model, ({ onAnswers }) => {
        const take = serveGrammars({
          othersTurn,
          send: (answers) => setImmediate(onAnswers, structuredClone(answers)),
        });
        const send = (calls: Parameters<typeof take>[0]) => {
          setImmediate(take, structuredClone(calls));
        };
        return { send, terminate: () => {} };
      }),
  };
}

async function behindPort(
  modules: WatchedModules,
  engine: GenerationEngine,
): Promise<GenerationEngine> {
  const { messagePort } = modules["engine/remote/port"];
  const { port1, port2 } = new MessageChannel();
  modules["engine/remote/serve_engine"].serveEngine(engine, messagePort(port1));
  return modules["engine/remote/remote_engine"].RemoteEngine.connect(messagePort(port2));
}
