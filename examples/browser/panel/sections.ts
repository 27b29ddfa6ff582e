/**
 * What a side panel is made of: its sections, looked after once a second while it can be seen.
 *
 * @module
 */
import "./panel.css";
import { element } from "../app/dom.ts";
import type { Panel } from "./panel_source.ts";
import type { SpeedSection } from "./speed_section.ts";
import { whileVisible } from "./while_visible.ts";

const POLL_MILLISECONDS = 1000;

export interface PanelParts {
  /** What is shown, for those who cannot see it. */
  readonly label: string;
  readonly speed: SpeedSection;
  /** Behind the speed. */
  readonly others: readonly { readonly element: HTMLElement }[];
  /** Brings the sections up to date. What it throws is told until it works again. */
  readonly look: () => Promise<void>;
}

/** Draws the sections into `root` and keeps them up to date until the panel is closed. */
export function mountSections(
  root: HTMLElement,
  { label, speed, others, look }: PanelParts,
): Panel {
  const problem = element("p", { class: "panel-problem", role: "alert", hidden: true });
  const panel = element(
    "div",
    { class: "panel", role: "group", "aria-label": label },
    problem,
    ...[speed, ...others].map((section) => section.element),
  );
  root.replaceChildren(panel);
  const work = async () => {
    try {
      await look();
      problem.hidden = true;
    } catch (error) {
      // It may come back: a lost device is replaced, a server starts again.
      problem.textContent = error instanceof Error ? error.message : String(error);
      problem.hidden = false;
    }
  };
  const stop = whileVisible(panel, { work, milliseconds: POLL_MILLISECONDS });
  return {
    update: (stats) => speed.update(stats),
    close: () => {
      stop();
      panel.remove();
    },
  };
}
