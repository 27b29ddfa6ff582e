/**
 * What a download tells the person who waits for it: one line that changes on a terminal, a line
 * every few seconds elsewhere.
 *
 * @module
 */

import { TransferRate } from "../../http/transfer_rate.ts";
import type { Output } from "../observe/logger.ts";
import type { DownloadReport } from "./download_model.ts";

export interface ProgressOptions {
  /** Milliseconds. */
  readonly now?: () => number;
}

const TERMINAL_INTERVAL = 200;
const LINE_INTERVAL = 5000;
const CLEAR_LINE = "\r\x1b[K";

/** Writes what is here, how fast the rest comes, and how long it will take. */
export function downloadReport(
  id: string,
  output: Output,
  { now = () => performance.now() }: ProgressOptions = {},
): DownloadReport {
  const interval = output.isTTY ? TERMINAL_INTERVAL : LINE_INTERVAL;
  const rate = new TransferRate();
  let shown = Number.NEGATIVE_INFINITY;
  let isComplete = false;
  const clear = () => {
    if (output.isTTY) output.write(CLEAR_LINE);
  };
  return {
    progress(done, total) {
      const time = now();
      const wasComplete = isComplete;
      isComplete = done >= total;
      const isNews = isComplete && !wasComplete;
      if (time - shown < interval && !isNews) return;
      shown = time;
      rate.add(time, done);
      const text = `Downloading ${id}: ${describe(done, total, rate.bytesPerSecond)}`;
      const end = isComplete ? "\n" : "";
      if (!output.isTTY) output.write(`${text}\n`);
      else output.write(CLEAR_LINE + text.slice(0, (output.columns ?? 81) - 1) + end);
    },
    note(sentence) {
      clear();
      output.write(`${sentence}\n`);
    },
  };
}

function describe(done: number, total: number, rate: number | undefined): string {
  const percent = total === 0 ? 100 : Math.floor((done / total) * 100);
  const amount = `${megabytes(done)} of ${megabytes(total)} MB (${percent}%)`;
  if (rate === undefined || done >= total) return amount;
  const left = duration((total - done) / rate);
  return `${amount}, ${megabytes(rate)} MB/s, ${left} left`;
}

function megabytes(bytes: number): string {
  const value = bytes / 1e6;
  return value.toFixed(value < 100 ? 1 : 0);
}

function duration(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.ceil(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
