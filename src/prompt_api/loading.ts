/**
 * The engine of the sessions: there from the beginning, or loaded when the first one asks.
 *
 * @module
 */
import type { ModelDescription, TokenizeRequest } from "../generation.ts";
import type { OpenaiChat } from "../server/openai_chat.ts";

/** What sessions ask of an engine: those of this package have all of it. */
export interface PromptEngine {
  readonly model: Pick<ModelDescription, "contextLength" | "readsImages" | "defaults">;
  readonly chat: OpenaiChat;
  tokenize(request: TokenizeRequest): Promise<readonly number[]>;
}

/** An engine, or what loads one; it tells how far it is, from 0 to 1. */
export type PromptEngineSource =
  | PromptEngine
  | ((onProgress: (share: number) => void) => Promise<PromptEngine>);

export interface MonitorOptions {
  /** Is given what fires `downloadprogress`. */
  monitor?(monitor: EventTarget): void;
  readonly signal?: AbortSignal;
}

export class EngineLoading {
  readonly #source: PromptEngineSource;
  readonly #monitors = new Set<EventTarget>();
  #loaded: PromptEngine | undefined;
  #loading: Promise<PromptEngine> | undefined;

  constructor(source: PromptEngineSource) {
    this.#source = source;
    if (typeof source !== "function") this.#loaded = source;
  }

  /** Undefined until it is there. */
  get loaded(): PromptEngine | undefined {
    return this.#loaded;
  }

  get state(): "available" | "downloading" | "downloadable" {
    if (this.#loaded !== undefined) return "available";
    return this.#loading === undefined ? "downloadable" : "downloading";
  }

  /** Loads it once, for all that wait; a load that fails is tried again by the next one. */
  async engine(options: MonitorOptions): Promise<PromptEngine> {
    const target = new DownloadMonitor();
    options.monitor?.(target);
    this.#monitors.add(target);
    try {
      if (this.#loaded === undefined) await untilAborted(this.#load(), options.signal);
      // Those who come when all is there are told so too.
      else for (const share of [0, 1]) target.tell(share);
      return this.#loaded!;
    } finally {
      this.#monitors.delete(target);
    }
  }

  #load(): Promise<PromptEngine> {
    const source = this.#source as Exclude<PromptEngineSource, PromptEngine>;
    const tell = (share: number) => {
      for (const monitor of this.#monitors) (monitor as DownloadMonitor).tell(share);
    };
    const load = async () => {
      tell(0);
      this.#loaded = await source(tell);
      tell(1);
      return this.#loaded;
    };
    this.#loading ??= load().catch((error: unknown) => {
      this.#loading = undefined;
      throw error;
    });
    return this.#loading;
  }
}

/** Fires `downloadprogress` with `loaded` of `total` 1. */
class DownloadMonitor extends EventTarget {
  ondownloadprogress: ((event: Event) => void) | null = null;

  tell(loaded: number): void {
    const figures = { loaded, total: 1, lengthComputable: true };
    const event = Object.assign(new Event("downloadprogress"), figures);
    this.ondownloadprogress?.(event);
    this.dispatchEvent(event);
  }
}

/** What `work` comes to, unless the signal is aborted before: the work itself goes on. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
