/**
 * What is wrong, above everything else, until it is dismissed or replaced.
 *
 * @module
 */
import type { RecoveryEvent } from "wisp-llm";
import { type Explanation, explainError } from "../model/explain_error.ts";
import { byId, element } from "./dom.ts";
import { icon } from "./icons.ts";

type Weight = "error" | "warning";

export function showBanner({ text, advice }: Explanation, weight: Weight = "error"): void {
  const close = element(
    "button",
    { type: "button", class: "quiet", "aria-label": "Dismiss" },
    icon("close"),
  );
  close.addEventListener("click", clearBanner);
  byId("banner").replaceChildren(
    element(
      "div",
      { class: `banner ${weight}` },
      icon("warning"),
      element("p", {}, element("strong", {}, text), advice !== undefined && ` ${advice}`),
      close,
    ),
  );
}

/** An abort is no error. */
export function showError(error: unknown): void {
  if (error instanceof Error && error.name === "AbortError") return;
  showBanner(explainError(error));
}

/** A lost GPU is a pause, and is gone with it. What ends the engine is told by its requests. */
export function showRecovery({ kind }: RecoveryEvent): void {
  if (kind === "started") {
    showBanner(
      { text: "The GPU was lost.", advice: "Answers go on when it is back: a moment." },
      "warning",
    );
  }
  if (kind === "finished") clearBanner();
}

export function clearBanner(): void {
  byId("banner").replaceChildren();
}
