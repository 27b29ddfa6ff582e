/**
 * Repeats something for as long as an element can be seen.
 *
 * @module
 */

export interface RepeatedWork {
  /** Never runs twice at once; deals with its own failures. */
  readonly work: () => Promise<void>;
  /** From the end of one run to the beginning of the next. */
  readonly milliseconds: number;
}

/** @returns Ends it. */
export function whileVisible(element: Element, { work, milliseconds }: RepeatedWork): () => void {
  let isInView = false;
  let isRunning = false;
  let isOver = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const run = async () => {
    clearTimeout(timer);
    if (isOver || isRunning || !isInView || document.hidden) return;
    isRunning = true;
    await work();
    isRunning = false;
    if (!isOver) timer = setTimeout(run, milliseconds);
  };
  const observer = new IntersectionObserver((entries) => {
    isInView = entries.at(-1)!.isIntersecting;
    void run();
  });
  observer.observe(element);
  document.addEventListener("visibilitychange", run);
  return () => {
    isOver = true;
    clearTimeout(timer);
    observer.disconnect();
    document.removeEventListener("visibilitychange", run);
  };
}
