/** `target` with other members; its own methods are called on it, as native ones have to be. */
export function facade<T extends object>(target: T, others: Readonly<Record<string, unknown>>): T {
  return new Proxy(target, {
    get(_, name) {
      if (typeof name === "string" && name in others) return others[name];
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
