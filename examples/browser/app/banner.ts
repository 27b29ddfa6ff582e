/**
 * What is wrong, above everything else, until it is dismissed or replaced.
 *
 * @module
 */
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

/** An abort is nobody's error. */
export function showError(error: unknown): void {
  if (error instanceof Error && error.name === "AbortError") return;
  showBanner(explainError(error));
}

export function clearBanner(): void {
  byId("banner").replaceChildren();
}
