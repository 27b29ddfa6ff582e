/**
 * The side panel: what the engine is doing right now, drawn.
 *
 * It looks at the engine once a second, only while it can be seen, and draws what has changed.
 *
 * @module
 */
import "./panel.css";
import { element } from "../app/dom.ts";
import { CacheSection } from "./cache_section.ts";
import { KernelSection } from "./kernel_section.ts";
import { MemorySection } from "./memory_section.ts";
import type { AnswerStats, Panel, PanelSource } from "./panel_source.ts";
import { SpeedSection, tokensPerStep } from "./speed_section.ts";
import { whileVisible } from "./while_visible.ts";

export type { AnswerStats, Panel, PanelSource };

const POLL_MILLISECONDS = 1000;

/** Draws the panel into `root` and keeps it up to date until it is closed. */
export function mountPanel(root: HTMLElement, source: PanelSource): Panel {
  const speed = new SpeedSection();
  const cache = new CacheSection();
  const memory = new MemorySection(source.memoryPlan);
  const kernels = new KernelSection(source);
  const problem = element("p", { class: "panel-problem", role: "alert", hidden: true });
  const panel = element(
    "div",
    { class: "panel", role: "group", "aria-label": "Engine" },
    problem,
    ...[speed, cache, memory, kernels].map((section) => section.element),
  );
  root.replaceChildren(panel);
  const look = async () => {
    try {
      const status = source.status();
      speed.show({ ...status, tokensPerStep: tokensPerStep(status) });
      memory.show(status);
      if (source.cacheTree === undefined) cache.showAbsent();
      else cache.show(await source.cacheTree());
      problem.hidden = true;
    } catch (error) {
      // It may come back: a lost device is replaced.
      problem.textContent = error instanceof Error ? error.message : String(error);
      problem.hidden = false;
    }
  };
  const stop = whileVisible(panel, { work: look, milliseconds: POLL_MILLISECONDS });
  return {
    update: (stats) => speed.update(stats),
    close: () => {
      stop();
      panel.remove();
    },
  };
}
