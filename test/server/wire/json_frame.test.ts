import fc from "fast-check";
import { expect, test } from "vitest";
import { JsonFrame } from "../../../src/server/wire/json_frame.ts";

test("JsonFrame writes what JSON.stringify writes, whatever stands around the text", () => {
  // Names that look like the mark in its place.
  const name = fc.oneof(fc.constantFrom("text", '"text"', "text.", "text..", "\\"), fc.string());
  fc.assert(
    fc.property(name, name, fc.array(fc.string({ unit: "binary" })), (id, model, texts) => {
      const around = (text: string) => ({ id, delta: { role: null, text }, model });
      const frame = new JsonFrame(around);
      for (const text of [...texts, "", id]) {
        expect(frame.write(text).json).toBe(JSON.stringify(around(text)));
      }
    }),
  );
});
