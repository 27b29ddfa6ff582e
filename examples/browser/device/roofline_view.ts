/**
 * The roofline as a chart with logarithmic axes, and the same as a table.
 *
 * @module
 */
import type { AdapterRates } from "wisp-llm";
import { element } from "../app/dom.ts";
import { at, drawing, scroller, svg } from "../drawing/drawing.ts";
import { duration, percent, powerOfTen, rate } from "../drawing/figures.ts";
import type { KernelFigures } from "./device_report.ts";
import { kernelTable } from "./kernel_table.ts";
import {
  type Decades,
  decadesOf,
  type KernelPoint,
  kernelPoints,
  logShare,
  roof,
} from "./roofline.ts";

/** Pixels around the plot. */
const MARGIN = { left: 52, right: 16, top: 28, bottom: 40 };
const NARROWEST = 300;
const SHAPE = 0.62;
/** Kernels that are named in the chart, those that take the most time. */
const NAMED = 6;
const RADIUS = { least: 3, most: 11 };
const LETTER = 6.2;
const LINE = 14;
/** Between a mark and its name. */
const GAP = 4;

type Drawn = KernelPoint & { readonly achieved: number };

/** Both; the chart is drawn anew when its place changes its width. */
export function rooflineView(figures: KernelFigures): HTMLElement {
  const points = kernelPoints(figures);
  const chart = element("div", { class: "roofline-chart" });
  const drawn = points.filter(
    (point): point is Drawn => point.intensity > 0 && (point.achieved ?? 0) > 0,
  );
  let drawnWidth = 0;
  new ResizeObserver(([entry]) => {
    const width = Math.max(entry!.contentRect.width, NARROWEST);
    if (width === drawnWidth) return;
    drawnWidth = width;
    // Later: a drawing changes the height of what is observed.
    requestAnimationFrame(() =>
      chart.replaceChildren(drawChart(figures.rates, { points: drawn, width })),
    );
  }).observe(chart);
  return element(
    "figure",
    { class: "roofline" },
    chart,
    element("figcaption", {}, caption(figures, points.length - drawn.length)),
    element(
      "details",
      {},
      element("summary", {}, "All kernels as a table"),
      scroller("Kernels", kernelTable(points)),
    ),
  );
}

function caption({ rates, grainMicroseconds }: KernelFigures, left: number): string {
  const parts = [
    `Copies reach ${rate(rates.copy, "B/s")}, fused multiply-adds ${rate(rates.fma, "FLOP/s")}.`,
    "Each mark is a kernel, as large as its share of the time of its phase.",
    left > 0 ? `${left} that only move bytes, or are too short to time, are in the table.` : "",
    grainMicroseconds >= 10
      ? `This browser rounds GPU times to ${duration(grainMicroseconds / 1e6)}: single kernels are rough.`
      : "",
  ];
  return parts.filter((part) => part !== "").join(" ");
}

interface Plot {
  readonly x: (intensity: number) => number;
  readonly y: (rate: number) => number;
  readonly right: number;
  readonly bottom: number;
}

function drawChart(
  rates: AdapterRates,
  { points, width }: { readonly points: readonly Drawn[]; readonly width: number },
): SVGSVGElement {
  const height = Math.round(Math.max(width * SHAPE, 260));
  const ridge = rates.fma / rates.copy;
  const across = decadesOf([...points.map(({ intensity }) => intensity), ridge / 3, ridge * 3]);
  const up = decadesOf([...points.map(({ achieved }) => achieved), rates.fma]);
  const right = width - MARGIN.right;
  const bottom = height - MARGIN.bottom;
  const plot: Plot = {
    x: (value) => MARGIN.left + logShare(across, value) * (right - MARGIN.left),
    y: (value) => bottom - logShare(up, value) * (bottom - MARGIN.top),
    ...{ right, bottom },
  };
  const label = `Roofline: ${points.length} kernels by operations for a byte and operations a second; the table has them`;
  return drawing(
    label,
    { width, height },
    ...grid(plot, { across, up }),
    roofPath(plot, { rates, across, up }),
    ...points.map((point) => mark(plot, point)),
    ...names(plot, points),
    ...legend(plot),
  );
}

interface Axes {
  readonly across: Decades;
  readonly up: Decades;
}

function grid({ x, y, right, bottom }: Plot, { across, up }: Axes): SVGElement[] {
  const columns = powers(across).flatMap((power) => [
    svg("path", { class: "grid", d: `M${at(x(power))} ${MARGIN.top}V${bottom}` }),
    svg(
      "text",
      { class: "tick", x: at(x(power)), y: bottom + LINE + 2, "text-anchor": "middle" },
      String(power),
    ),
  ]);
  const rows = powers(up).flatMap((power) => [
    svg("path", { class: "grid", d: `M${MARGIN.left} ${at(y(power))}H${right}` }),
    svg(
      "text",
      { class: "tick", x: MARGIN.left - 8, y: at(y(power) + 4), "text-anchor": "end" },
      powerOfTen(power),
    ),
  ]);
  const middle = at((MARGIN.left + right) / 2);
  const title = { class: "axis", x: middle, y: bottom + 2 * LINE + 6, "text-anchor": "middle" };
  const side = { class: "axis", x: 0, y: LINE - 4 };
  return [
    ...columns,
    ...rows,
    svg("text", title, "operations for a byte"),
    svg("text", side, "operations a second"),
  ];
}

function powers({ from, to }: Decades): number[] {
  return Array.from({ length: to - from + 1 }, (_, i) => Number(`1e${from + i}`));
}

/** Up along what memory feeds, then level at what arithmetic does; cut where the chart ends. */
function roofPath(
  { x, y, right }: Plot,
  { rates, across, up }: Axes & { readonly rates: AdapterRates },
): SVGPathElement {
  const ridge = rates.fma / rates.copy;
  const start = Math.max(10 ** across.from, 10 ** up.from / rates.copy);
  const from = `${at(x(start))} ${at(y(roof(rates, start)))}`;
  const d = `M${from}L${at(x(ridge))} ${at(y(rates.fma))}H${right}`;
  return svg("path", { class: "roof", d });
}

function radius({ share }: Drawn): number {
  return RADIUS.least + Math.sqrt(share) * (RADIUS.most - RADIUS.least);
}

/** A disc for decode, a diamond for prefill: shapes differ for whom colours do not. */
function mark({ x, y }: Plot, point: Drawn): SVGElement {
  const [cx, cy, r] = [x(point.intensity), y(point.achieved), radius(point)];
  const near = percent(point.ofBound ?? 0);
  const words = `${percent(point.share)} of the time, ${near} of the bound`;
  const title = svg("title", {}, `${point.kernel}, ${point.phase}: ${words}`);
  if (point.phase === "decode") {
    return svg("circle", { class: "mark is-decode", cx: at(cx), cy: at(cy), r: at(r) }, title);
  }
  return svg("path", { class: "mark is-prefill", d: diamond(cx, cy, r * 1.15) }, title);
}

function diamond(x: number, y: number, r: number): string {
  return `M${at(x)} ${at(y - r)}L${at(x + r)} ${at(y)}L${at(x)} ${at(y + r)}L${at(x - r)} ${at(y)}Z`;
}

interface Box {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

/** Names beside the largest marks, on the side that has room; without one there is no name. */
function names(plot: Plot, points: readonly Drawn[]): SVGElement[] {
  const taken = points.map((point) => markBox(plot, point));
  const texts: SVGElement[] = [];
  const largest = [...points].sort((a, b) => b.share - a.share).slice(0, NAMED);
  for (const point of largest) {
    const name = point.kernel.replace(/^.*\//, "");
    const mark = markBox(plot, point);
    const y = (mark.top + mark.bottom) / 2;
    const width = name.length * LETTER;
    const rows = { top: y - LINE / 2, bottom: y + LINE / 2 };
    const after = { left: mark.right + GAP, right: mark.right + GAP + width, ...rows };
    const before = { left: mark.left - GAP - width, right: mark.left - GAP, ...rows };
    const box = [after, before].find((one) => isFree(one, { plot, taken }));
    if (box === undefined) continue;
    taken.push(box);
    texts.push(svg("text", { class: "mark-name", x: at(box.left), y: at(y + 4) }, name));
  }
  return texts;
}

function markBox({ x, y }: Plot, point: Drawn): Box {
  const [cx, cy, r] = [x(point.intensity), y(point.achieved), radius(point)];
  return { left: cx - r, right: cx + r, top: cy - r, bottom: cy + r };
}

function isFree(
  box: Box,
  { plot, taken }: { readonly plot: Plot; readonly taken: readonly Box[] },
): boolean {
  if (box.left < MARGIN.left || box.right > plot.right + MARGIN.right) return false;
  return taken.every(
    (one) =>
      box.right < one.left || one.right < box.left || box.bottom < one.top || one.bottom < box.top,
  );
}

/** Above the plot, where there are no marks. */
function legend({ right }: Plot): SVGElement[] {
  const y = LINE - 8;
  const text = { class: "legend", y: y + 4, "text-anchor": "end" };
  return [
    svg("circle", { class: "mark is-decode", cx: right - 50, cy: y, r: 5 }),
    svg("text", { ...text, x: right }, "decode"),
    svg("path", { class: "mark is-prefill", d: diamond(right - 116, y, 6) }),
    svg("text", { ...text, x: right - 70 }, "prefill"),
  ];
}
