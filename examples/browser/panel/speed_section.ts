/**
 * The answer that is being written, in figures, and how fast its tokens come as a line.
 *
 * @module
 */
import type { EngineStatus, SpeculationFigures } from "wisp-llm";
import { element } from "../app/dom.ts";
import { at, drawing, svg } from "../drawing/drawing.ts";
import { count, duration, percent, rounded } from "../drawing/figures.ts";
import type { AnswerStats } from "./panel_source.ts";
import { averageRate, RateMeter } from "./rate_meter.ts";

const LINE = { width: 320, height: 56, margin: 3 };
/** Milliseconds between two drawings of the line. */
const REDRAW = 250;

type Figure = "rate" | "first" | "cached" | "requests" | "drafts";

const FIGURES: readonly (readonly [Figure, string])[] = [
  ["rate", "tokens/s"],
  ["first", "first token"],
  ["cached", "cached tokens"],
  ["requests", "running / waiting"],
  ["drafts", "tokens a step"],
];

/** What is told of all requests. */
export interface Activity extends Pick<EngineStatus, "runningRequests" | "queuedRequests"> {
  /** In words. */
  readonly tokensPerStep: string;
}

/** Of each request on average, and how many of the drafts were right. */
export function tokensPerStep({ speculation }: Pick<EngineStatus, "speculation">): string {
  return speculation === undefined ? "1, no drafts" : draftedTokens(speculation);
}

function draftedTokens({
  verifySteps,
  acceptedDrafts,
  proposedDrafts,
}: SpeculationFigures): string {
  if (verifySteps === 0) return "–";
  const length = (1 + acceptedDrafts / verifySteps).toFixed(2);
  if (proposedDrafts === 0) return length;
  return `${length}, ${percent(acceptedDrafts / proposedDrafts)} of drafts`;
}

export class SpeedSection {
  readonly element: HTMLElement;
  readonly #meter = new RateMeter();
  readonly #line = element("div", { class: "panel-line" });
  readonly #values: ReadonlyMap<Figure, HTMLElement>;
  #drawnAt = 0;

  constructor() {
    const values = new Map<Figure, HTMLElement>();
    const items = FIGURES.map(([name, words]) => {
      const value = element("dd", { "data-figure": name }, "–");
      values.set(name, value);
      return element("div", {}, element("dt", {}, words), value);
    });
    this.#values = values;
    this.element = element(
      "section",
      { class: "panel-section" },
      element("h3", {}, "Speed"),
      element("dl", { class: "panel-figures" }, ...items),
      this.#line,
    );
    this.#drawLine();
  }

  show({ runningRequests, queuedRequests, tokensPerStep }: Activity): void {
    this.#set("requests", `${runningRequests} / ${queuedRequests}`);
    this.#set("drafts", tokensPerStep);
  }

  update(stats: AnswerStats): void {
    const now = performance.now();
    const { promptTokens, cachedTokens, sentAt, firstTokenAt } = stats;
    this.#meter.add(stats, now);
    const average = averageRate(stats, now);
    this.#set("rate", average === undefined ? "–" : rounded(average));
    const wait = firstTokenAt === undefined ? undefined : (firstTokenAt - sentAt) / 1000;
    this.#set("first", wait === undefined ? "…" : duration(wait));
    this.#set("cached", cachedShare(cachedTokens, promptTokens));
    if (!stats.isOver && now - this.#drawnAt < REDRAW) return;
    this.#drawnAt = now;
    this.#drawLine();
  }

  #set(figure: Figure, text: string): void {
    const element = this.#values.get(figure)!;
    if (element.textContent !== text) element.textContent = text;
  }

  #drawLine(): void {
    const { rates } = this.#meter;
    const { width, height, margin } = LINE;
    if (rates.length < 2) {
      const rest = svg("path", { class: "line-rest", d: `M0 ${height - 1}H${width}` });
      this.#line.replaceChildren(drawing("Tokens a second: no answer yet", LINE, rest));
      return;
    }
    const top = Math.max(...rates);
    const points = rates.map((rate, i) => {
      const x = (i / (rates.length - 1)) * (width - 2 * margin) + margin;
      return `${at(x)} ${at(height - 1 - (rate / top) * (height - 1 - 2 * margin))}`;
    });
    const path = `M${points.join("L")}`;
    const last = rounded(rates.at(-1)!);
    const label = `Tokens a second of late: ${last} at the end, ${rounded(top)} at most`;
    const [x, y] = points.at(-1)!.split(" ");
    const end = svg("circle", { class: "line-end", cx: x, cy: y, r: margin });
    this.#line.replaceChildren(
      drawing(
        label,
        LINE,
        svg("path", { class: "line-area", d: `${path}V${height}H${margin}Z` }),
        svg("path", { class: "line-rest", d: `M0 ${height - 1}H${width}` }),
        svg("path", { class: "line-path", d: path }),
        end,
      ),
    );
  }
}

function cachedShare(cached: number | undefined, prompt: number): string {
  if (cached === undefined) return "–";
  return `${count(cached)} of ${count(prompt)}, ${percent(prompt === 0 ? 0 : cached / prompt)}`;
}
