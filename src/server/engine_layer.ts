/**
 * An engine with some of its members replaced: how requests are changed, or watched, on their way.
 *
 * @module
 */
import type { GenerationEngine } from "../generation.ts";

/** Everything that `layer` does not have is `engine`'s own. */
export function layerOver<E extends GenerationEngine>(
  engine: E,
  layer: Partial<GenerationEngine>,
): E {
  return new Proxy(engine, {
    get: (target, name) => {
      if (Object.hasOwn(layer, name)) return Reflect.get(layer, name);
      const member: unknown = Reflect.get(target, name, target);
      // Private members are reached through the engine itself only.
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
}
