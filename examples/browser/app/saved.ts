/**
 * What the demo keeps in the browser between visits: small things, as JSON, under its own prefix.
 *
 * @module
 */

const PREFIX = "wisp.";

/** What was saved under `name`, or undefined where nothing readable is. */
export function load(name: string): unknown {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? undefined : (JSON.parse(text) as unknown);
  } catch {
    // Storage is switched off, or another program wrote there: it is as if there were nothing.
    return undefined;
  }
}

/** @returns Whether it is kept: browsers refuse when storage is full or switched off. */
export function save(name: string, value: unknown): boolean {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

export function forget(name: string): void {
  try {
    localStorage.removeItem(PREFIX + name);
  } catch {
    // Storage is switched off, so that there is nothing to forget.
  }
}

/** The names under `group`, such as those of all chats. */
export function saved(group: string): readonly string[] {
  try {
    const start = PREFIX + group;
    return Object.keys(localStorage)
      .filter((key) => key.startsWith(start))
      .map((key) => key.slice(PREFIX.length));
  } catch {
    return [];
  }
}
