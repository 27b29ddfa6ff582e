/**
 * The machine's own Firefox, clicked and typed in by WebDriver BiDi: Playwright drives builds of its
 * own alone.
 *
 * @module
 */
import { writeFileSync } from "node:fs";
import { WebSocket } from "ws";
import { until } from "../until.ts";
import { type FirefoxOptions, launchFirefox } from "./firefox.ts";

interface Answer {
  readonly id?: number;
  readonly type: string;
  readonly result?: unknown;
  readonly message?: string;
  readonly method?: string;
  readonly params?: { readonly level?: string; readonly text?: string };
}

/** What a page's program gives, as JSON. */
interface Evaluated {
  readonly result?: { readonly value?: string };
  readonly exceptionDetails?: { readonly text: string };
}

/** Keys that have no letter. */
const KEYS: Readonly<Record<string, string>> = {
  Enter: "\ue007",
  Escape: "\ue00c",
  Tab: "\ue004",
};

export class DrivenFirefox {
  /** What its console has warned of, and errors that nothing has caught. */
  readonly problems: string[] = [];
  readonly #socket: WebSocket;
  readonly #close: () => Promise<void>;
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  #count = 0;
  #context = "";

  private constructor(socket: WebSocket, close: () => Promise<void>) {
    this.#socket = socket;
    this.#close = close;
    socket.on("message", (data) => this.#hear(JSON.parse(String(data)) as Answer));
  }

  static async launch({ preferences = {} }: FirefoxOptions = {}): Promise<DrivenFirefox> {
    const firefox = launchFirefox("about:blank", {
      preferences,
      args: ["--remote-debugging-port", "0"],
    });
    const listening = /WebDriver BiDi listening on (ws:\S+)/;
    await until(() => {
      if (!listening.test(firefox.log())) throw new Error(`No BiDi yet: ${firefox.log()}`);
    });
    const socket = new WebSocket(`${listening.exec(firefox.log())![1]}/session`);
    await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
    const driven = new DrivenFirefox(socket, () => firefox.close());
    await driven.#send("session.new", { capabilities: {} });
    await driven.#send("session.subscribe", { events: ["log.entryAdded"] });
    const tree = (await driven.#send("browsingContext.getTree", {})) as {
      readonly contexts: readonly { readonly context: string }[];
    };
    driven.#context = tree.contexts[0]!.context;
    return driven;
  }

  async goto(url: string): Promise<void> {
    await this.#send("browsingContext.navigate", {
      context: this.#context,
      url,
      wait: "complete",
    });
  }

  /** Size of the page, in pixels of its own. */
  async resize(width: number, height: number): Promise<void> {
    const viewport = { width, height };
    await this.#send("browsingContext.setViewport", { context: this.#context, viewport });
  }

  /** Runs a program in the page, as a debugger does: the page's policy has no say. */
  async run(program: string): Promise<void> {
    await this.#send("script.evaluate", {
      expression: `${program}\n;0`,
      target: { context: this.#context },
      awaitPromise: false,
    });
  }

  /** What an expression of the page comes to, through JSON. */
  async evaluate<T>(expression: string): Promise<T> {
    const { result, exceptionDetails } = (await this.#send("script.evaluate", {
      expression: `(async () => JSON.stringify((await (${expression})) ?? null))()`,
      target: { context: this.#context },
      awaitPromise: true,
    })) as Evaluated;
    if (exceptionDetails !== undefined) throw new Error(exceptionDetails.text);
    return JSON.parse(result!.value!) as T;
  }

  /** Presses the mouse where the middle of the element is, which must be in sight. */
  async click(selector: string): Promise<void> {
    const at = JSON.stringify(selector);
    const [x, y] = await this.evaluate<[number, number]>(`(() => {
      const one = document.querySelector(${at});
      one.scrollIntoView({ block: "nearest" });
      const { left, top, width, height } = one.getBoundingClientRect();
      return [Math.round(left + width / 2), Math.round(top + height / 2)];
    })()`);
    const actions = [
      { type: "pointerMove", x, y },
      { type: "pointerDown", button: 0 },
      { type: "pointerUp", button: 0 },
    ];
    await this.#perform({ type: "pointer", id: "mouse", actions });
  }

  /** Types into what has the focus; a name of a key in `KEYS` is that key. */
  async type(...words: readonly string[]): Promise<void> {
    const keys = words.flatMap((word) => KEYS[word] ?? Array.from(word));
    const actions = keys.flatMap((value) => [
      { type: "keyDown", value },
      { type: "keyUp", value },
    ]);
    await this.#perform({ type: "key", id: "keyboard", actions });
  }

  /** Waits until an expression of the page is true. */
  async sees(expression: string): Promise<void> {
    await until(async () => {
      if (!(await this.evaluate<boolean>(`Boolean(${expression})`))) {
        throw new Error(`Not yet: ${expression}`);
      }
    });
  }

  async screenshot(path: string): Promise<void> {
    const { data } = (await this.#send("browsingContext.captureScreenshot", {
      context: this.#context,
    })) as { readonly data: string };
    writeFileSync(path, Buffer.from(data, "base64"));
  }

  async close(): Promise<void> {
    this.#socket.terminate();
    await this.#close();
  }

  async #perform(source: object): Promise<void> {
    await this.#send("input.performActions", { context: this.#context, actions: [source] });
  }

  #send(method: string, params: object): Promise<unknown> {
    const id = ++this.#count;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, ({ type, result, message }) => {
        if (type === "success") resolve(result);
        else reject(new Error(`Cannot ${method}: ${message}`));
      });
      this.#socket.send(JSON.stringify({ id, method, params }));
    });
  }

  #hear(answer: Answer): void {
    const { id, params } = answer;
    if (id !== undefined) {
      this.#waiting.get(id)?.(answer);
      this.#waiting.delete(id);
    } else if (params?.level === "error" || params?.level === "warn") {
      this.problems.push(params.text ?? "");
    }
  }
}
