/** Responses that are kept stay within their number and their bytes. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { ResponseStore } from "../../../src/server/responses/response_store.ts";

const response = (id: string, bytes: number) => ({
  id,
  bytes,
  wire: { id },
  messages: [],
  images: [],
});

test("the newest uses stay, within both limits", () => {
  const uses = fc.array(
    fc.record({ id: fc.nat(12), bytes: fc.nat(60), kind: fc.constantFrom("add", "use", "delete") }),
    { maxLength: 60 },
  );
  fc.assert(
    fc.property(uses, (steps) => {
      const store = new ResponseStore({ maxCount: 4, maxBytes: 100 });
      /** In the order of their last use. */
      let kept: { id: string; bytes: number }[] = [];
      const without = (id: string) => kept.filter((one) => one.id !== id);
      for (const [i, { id: number, bytes, kind }] of steps.entries()) {
        // Ids of new responses are new.
        const id = kind === "add" ? `new${i}` : (kept[number]?.id ?? "none");
        const own = kept.find((one) => one.id === id);
        if (kind === "add") {
          store.add(response(id, bytes));
          kept.push({ id, bytes });
          while (kept.length > 4 || kept.reduce((sum, one) => sum + one.bytes, 0) > 100)
            kept.shift();
        } else if (own === undefined) {
          expect(() => store.get(id)).toThrow("is not kept here");
          expect(() => store.previous(id)).toThrow("previous_response_id");
        } else if (kind === "use") {
          expect(store.get(id).bytes).toBe(own.bytes);
          kept = [...without(id), own];
        } else {
          store.delete(id);
          kept = without(id);
        }
        expect(store.size).toBe(kept.length);
        expect(store.bytes).toBe(kept.reduce((sum, one) => sum + one.bytes, 0));
      }
    }),
  );
});

test("one that is too large puts no other out", () => {
  const store = new ResponseStore({ maxCount: 4, maxBytes: 100 });
  store.add(response("small", 50));
  store.add(response("large", 101));
  expect(store.get("small").id).toBe("small");
  expect(() => store.get("large")).toThrow("is not kept here");
});
