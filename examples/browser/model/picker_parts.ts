/**
 * Pieces of the view in which a model is picked.
 *
 * @module
 */
import { element } from "../app/dom.ts";
import type { ModelChoice } from "./model_choice.ts";

export interface PickerActions {
  readonly pick: (choice: ModelChoice) => void;
  readonly fail: (error: unknown) => void;
}

interface ModelRow {
  readonly name: string;
  readonly facts: string;
  readonly verdict?: string;
  readonly state?: "good" | "bad";
  /** Name of the button that picks it; none where it cannot be picked. */
  readonly action?: string;
  readonly pick?: () => void;
  /** The models that are here already stand out. Default true. */
  readonly isHere?: boolean;
  /** Further buttons. */
  readonly more?: readonly HTMLElement[];
}

/** One model: what it is, whether it fits, and what can be done with it. */
export function modelRow(row: ModelRow): HTMLLIElement {
  const { name, facts, verdict, state, action, pick, isHere = true, more = [] } = row;
  const look = isHere ? "primary" : "soft";
  return element(
    "li",
    { class: "model" },
    element(
      "div",
      { class: "about" },
      element("strong", {}, name),
      element("span", { class: "facts" }, facts),
      verdict !== undefined && element("span", { class: "verdict", "data-state": state }, verdict),
    ),
    element(
      "div",
      { class: "buttons" },
      ...more,
      action !== undefined &&
        element(
          "button",
          { type: "button", class: look, "aria-label": `${action} ${name}`, onclick: pick },
          action,
        ),
    ),
  );
}

/** The title of a part of the view, and what is to be known of it. */
export function partTitle(title: string, hint: string): HTMLElement {
  return element("h3", {}, title, element("small", {}, hint));
}
