/**
 * The side panel: what the engine is doing right now, drawn.
 *
 * It looks at the engine once a second, only while it can be seen, and draws what has changed.
 *
 * @module
 */
import { CacheSection } from "./cache_section.ts";
import { KernelSection } from "./kernel_section.ts";
import { MemorySection } from "./memory_section.ts";
import type { AnswerStats, Panel, PanelSource } from "./panel_source.ts";
import { mountSections } from "./sections.ts";
import { SpeedSection, tokensPerStep } from "./speed_section.ts";

export type { AnswerStats, Panel, PanelSource };

/** Draws the panel into `root` and keeps it up to date until it is closed. */
export function mountPanel(root: HTMLElement, source: PanelSource): Panel {
  const speed = new SpeedSection();
  const cache = new CacheSection();
  const memory = new MemorySection(source.memoryPlan);
  const kernels = new KernelSection(source);
  const look = async () => {
    const status = source.status();
    speed.show({ ...status, tokensPerStep: tokensPerStep(status) });
    memory.show(status);
    if (source.cacheTree === undefined) cache.showAbsent();
    else cache.show(await source.cacheTree());
  };
  return mountSections(root, { label: "Engine", speed, others: [cache, memory, kernels], look });
}
