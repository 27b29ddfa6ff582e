/**
 * The kernels of a report as a table: what the roofline shows, and those that it cannot.
 *
 * @module
 */
import { table } from "../drawing/drawing.ts";
import { count, duration, percent, rate } from "../drawing/figures.ts";
import type { KernelPoint } from "./roofline.ts";

export function kernelTable(points: readonly KernelPoint[]): HTMLTableElement {
  return table({
    class: "figures",
    caption: "Kernels of the embedded model's steps",
    head: [
      "Kernel",
      "Phase",
      "Launches",
      "Share",
      "One launch",
      "Memory",
      "Arithmetic",
      "Of bound",
    ],
    rows: points.map((point) => [
      ...[point.kernel, point.phase, count(point.launches), percent(point.share)],
      duration(point.microseconds / point.launches / 1e6),
      point.moved === undefined ? "–" : rate(point.moved, "B/s"),
      point.achieved ? rate(point.achieved, "FLOP/s") : "–",
      point.ofBound === undefined ? "–" : percent(point.ofBound),
    ]),
  });
}
