/**
 * One answer on the page: thoughts folded away, text, tool calls, what it took.
 *
 * @module
 */
import { copyButton } from "../app/copy.ts";
import { element, setText } from "../app/dom.ts";
import { formatCount, formatRate, formatSeconds } from "../app/format.ts";
import { icon } from "../app/icons.ts";
import { MAX_ROUNDS } from "./answer.ts";
import { type AssistantTurn, type Round, type TurnStats, textOf } from "./conversation.ts";
import { showCode, showMarkdown } from "./markdown.ts";

/** Levels of JSON that are indented. */
const MAX_INDENTED = 64;

export interface AnswerActions {
  readonly regenerate: () => void;
}

export class AnswerView {
  readonly element: HTMLLIElement;
  readonly #turn: AssistantTurn;
  readonly #body = element("div", { class: "rounds" });
  readonly #note = element("p", { class: "note", hidden: true });
  readonly #stats = element("p", { class: "stats" });
  readonly #actions: HTMLElement;
  readonly #rounds: RoundView[] = [];
  #isDrawn = true;

  constructor(turn: AssistantTurn, { regenerate }: AnswerActions) {
    this.#turn = turn;
    const again = element(
      "button",
      { type: "button", class: "quiet", "aria-label": "Answer again", title: "Answer again" },
      icon("again"),
    );
    again.addEventListener("click", regenerate);
    this.#actions = element(
      "div",
      { class: "actions" },
      copyButton("Copy answer", () => textOf(turn)),
      again,
      this.#stats,
    );
    this.element = element(
      "li",
      { class: "turn answer" },
      element("h2", { class: "hidden" }, "Answer"),
      this.#body,
      this.#note,
      this.#actions,
    );
    this.#draw();
  }

  /** Shows what has come, at the next frame: tokens may come faster than frames. */
  update(): void {
    if (!this.#isDrawn) return;
    this.#isDrawn = false;
    requestAnimationFrame(() => this.#draw());
  }

  #draw(): void {
    this.#isDrawn = true;
    const { rounds, end, error, stats } = this.#turn;
    for (const [i, round] of rounds.entries()) {
      const isLast = i === rounds.length - 1;
      let view = this.#rounds[i];
      if (view === undefined) {
        view = new RoundView();
        this.#rounds.push(view);
        this.#body.append(view.element);
      }
      view.draw(round, { isRunning: isLast && end === "running", json: this.#json(isLast) });
    }
    this.element.toggleAttribute("data-running", end === "running");
    this.element.dataset.end = end;
    const note = endNote(this.#turn) ?? error;
    this.#note.hidden = note === undefined;
    this.#note.classList.toggle("error", end === "error");
    this.#note.classList.toggle("valid", this.#turn.fitsSchema === true);
    setText(this.#note, note ?? "");
    setText(this.#stats, stats === undefined ? "" : statsText(stats));
    this.#actions.hidden = end === "running";
  }

  /** JSON is shown as such once it is known to be some. */
  #json(isLast: boolean): boolean {
    return isLast && this.#turn.fitsSchema === true;
  }
}

function statsText(stats: TurnStats): string {
  const { completionTokens, tokensPerSecond, firstTokenSeconds, promptTokens, cachedTokens } =
    stats;
  // A question that was refused has taken nothing.
  if (promptTokens === 0) return "";
  return [
    formatCount(completionTokens, "token"),
    tokensPerSecond === undefined ? undefined : formatRate(tokensPerSecond),
    `first after ${formatSeconds(firstTokenSeconds)}`,
    cachedTokens === undefined
      ? formatCount(promptTokens, "prompt token")
      : `${cachedTokens} of ${formatCount(promptTokens, "prompt token")} cached`,
  ]
    .filter((part) => part !== undefined)
    .join(" · ");
}

function endNote({ end, fitsSchema }: AssistantTurn): string | undefined {
  switch (end) {
    case "length":
      return fitsSchema === false
        ? "Cut off at the token limit, so the JSON is incomplete"
        : "Cut off at the token limit";
    case "stopped":
      return "Stopped";
    case "rounds":
      return `Stopped after ${MAX_ROUNDS} rounds of tool calls`;
    case "stop":
      if (fitsSchema === undefined) return undefined;
      return fitsSchema
        ? "Valid: the answer fits the schema"
        : "The answer does not fit the schema";
    default:
      return undefined;
  }
}

class RoundView {
  readonly element: HTMLElement;
  readonly #reasoning: HTMLDetailsElement;
  readonly #summary = element("summary");
  readonly #thoughts = element("div", { class: "markdown" });
  readonly #content = element("div", { class: "markdown" });
  readonly #calls = element("ul", { class: "calls" });
  readonly #pending = element("p", { class: "pending", "aria-hidden": "true" });

  constructor() {
    this.#reasoning = element(
      "details",
      { class: "reasoning", hidden: true },
      this.#summary,
      this.#thoughts,
    );
    this.element = element(
      "div",
      { class: "round" },
      this.#reasoning,
      this.#content,
      this.#calls,
      this.#pending,
    );
  }

  draw(round: Round, { isRunning, json }: { isRunning: boolean; json: boolean }): void {
    const { reasoning, content, calls } = round;
    const isThinking = isRunning && content === "" && calls.length === 0 && reasoning !== "";
    this.#reasoning.hidden = reasoning.trim() === "";
    this.#reasoning.toggleAttribute("data-live", isThinking);
    setText(this.#summary, isThinking ? "Thinking" : "Thoughts");
    showMarkdown(this.#thoughts, reasoning);
    if (json) showCode(this.#content, indentedJson(content), "json");
    else showMarkdown(this.#content, content);
    // There is a handful of calls at most, and they change until they have run.
    this.#calls.replaceChildren(...calls.map(callCard));
    this.#calls.hidden = calls.length === 0;
    this.#pending.hidden = !isRunning || isThinking || content !== "" || calls.length > 0;
  }
}

/** JSON with a line for each part; as it is where it nests so deep that lines would be mostly space. */
function indentedJson(text: string): string {
  let depth = 0;
  for (const [bracket] of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{}]/gs)) {
    if (bracket === "[" || bracket === "{") depth++;
    else if (bracket === "]" || bracket === "}") depth--;
    if (depth > MAX_INDENTED) return text;
  }
  return JSON.stringify(JSON.parse(text), null, 2);
}

function callCard(call: Round["calls"][number]): HTMLLIElement {
  const { name, arguments: written, result, isRefused = false } = call;
  return element(
    "li",
    { class: "call", "data-refused": isRefused },
    element("p", { class: "call-name" }, icon("tool"), element("strong", {}, name)),
    element("code", { class: "call-arguments" }, written),
    result !== undefined &&
      element(
        "p",
        { class: "call-result" },
        element("span", {}, isRefused ? "refused" : "result"),
        element("code", {}, result),
      ),
  );
}
