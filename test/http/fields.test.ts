import { describe, expect, test } from "vitest";
import { InvalidRequestError, UnsupportedError } from "../../src/errors.ts";
import { HttpError } from "../../src/http/error_response.ts";
import { Fields, present, requireIds } from "../../src/http/fields.ts";

describe("Fields", () => {
  test.each([null, 1, "x", [], undefined])("refuses %j as an object", (value) => {
    const read = () => new Fields(value);
    expect(read).toThrow(/^The request body must be an object, got/);
    expect(read).toThrow(expect.objectContaining({ field: undefined }));
  });

  test("reads values of the right type, and null as absent", () => {
    const fields = new Fields({ s: "x", b: false, n: 0.5, i: 3, l: [1], o: { a: 1 }, z: null });
    expect(fields.string("s")).toBe("x");
    expect(fields.boolean("b")).toBe(false);
    expect(fields.number("n")).toBe(0.5);
    expect(fields.integer("i")).toBe(3);
    expect(fields.list("l")).toEqual([1]);
    expect(fields.object("o")!.integer("a")).toBe(1);
    expect(fields.string("z")).toBeUndefined();
    expect(fields.isNull("z")).toBe(true);
    expect(fields.isNull("missing")).toBe(false);
    expect(() => fields.end()).not.toThrow();
  });

  test.each([
    ["string", 1, "a.f must be a string, got 1"],
    ["string", [], "a.f must be a string, got an empty list"],
    ["boolean", 1, "a.f must be true or false, got 1"],
    ["boolean", "true", 'a.f must be true or false, got "true"'],
    ["number", "1", 'a.f must be a number, got "1"'],
    ["number", Number.POSITIVE_INFINITY, "a.f must be a number, got Infinity"],
    ["integer", 1.5, "a.f must be an integer, got 1.5"],
    ["integer", 2 ** 53, "a.f must be an integer, got 9007199254740992"],
    ["integer", true, "a.f must be an integer, got true"],
    ["list", {}, "a.f must be a list, got an object"],
    ["object", [1], "a.f must be an object, got a list"],
  ] as const)("%s refuses %j by its path", (kind, value, message) => {
    const fields = new Fields({ f: value }, { path: "a" });
    expect(() => fields[kind]("f")).toThrow(
      new HttpError("malformed_body", message, { field: "a.f" }),
    );
  });

  test("names the range that a value misses", () => {
    const fields = new Fields({ p: 0, q: 2, t: -1 });
    const error = (message: string) => new InvalidRequestError(message, message[0]);
    const range = { above: 0, max: 1 };
    expect(() => fields.number("p", range)).toThrow(
      error("p must be above 0 and at most 1, got 0"),
    );
    expect(() => fields.number("q", range)).toThrow(
      error("q must be above 0 and at most 1, got 2"),
    );
    expect(() => fields.number("t", { min: 0 })).toThrow(error("t must be at least 0, got -1"));
  });

  test("end() names the first field that no reader took", () => {
    const fields = new Fields({ known: 1, wrong: 2 }, { path: "params" });
    fields.integer("known");
    expect(() => fields.end()).toThrow(
      new InvalidRequestError("Cannot use params.wrong: it is not a known field", "params.wrong"),
    );
  });

  test("keeps its hands off inherited names", () => {
    const fields = new Fields(JSON.parse('{"__proto__": {"text": "x"}}'));
    expect(fields.value("toString")).toBeUndefined();
    expect(fields.value("text")).toBeUndefined();
    expect(() => fields.end()).toThrow("__proto__");
  });

  test("end() takes a null of any name, which asks for nothing", () => {
    const fields = new Fields({ known: null, other: null });
    fields.integer("known");
    expect(() => fields.end()).not.toThrow();
  });

  test("takeIdle() takes values that change nothing, says so, and names the others", () => {
    const table = { n: [1], tools: (value: unknown) => Array.isArray(value) && value.length === 0 };
    for (const body of [{}, { n: null, tools: null }, { n: 1, tools: [] }]) {
      const idle: string[] = [];
      const fields = new Fields(body, { onIdle: (name) => idle.push(name) });
      expect(() => fields.takeIdle(table)).not.toThrow();
      expect(() => fields.end()).not.toThrow();
      expect(idle).toEqual(Object.values(body).includes(1) ? ["n", "tools"] : []);
    }
    const refusal = (field: string) =>
      new UnsupportedError(field, "it is not supported yet", { field });
    expect(() => new Fields({ n: 2 }).takeIdle(table)).toThrow(refusal("n"));
    const inner = new Fields({ tools: [{}] }, { path: "x" });
    expect(() => inner.takeIdle(table)).toThrow(refusal("x.tools"));
  });

  test("an object inside of another tells of idle fields as that does", () => {
    const idle: string[] = [];
    const fields = new Fields(
      { a: { b: 1 }, l: [{ b: 2 }] },
      { onIdle: (name) => idle.push(name) },
    );
    fields.object("a")!.takeIdle({ b: () => true });
    fields.within(fields.list("l")![0], "l[0]").takeIdle({ b: () => true });
    expect(idle).toEqual(["b", "b"]);
  });

  test("alias() reads a field by its other name, and errors call it by that", () => {
    const fields = new Fields({ n_predict: 0, top_k: 4, k: 4, a: 1, b: null });
    fields.alias("max_tokens", "n_predict");
    fields.alias("top_k", "k");
    fields.alias("a", "b");
    expect(fields.value("max_tokens")).toBe(0);
    expect(() => fields.integer("max_tokens", { min: 1 })).toThrow(
      new InvalidRequestError("n_predict must be at least 1, got 0", "n_predict"),
    );
    expect([fields.integer("top_k"), fields.integer("a")]).toEqual([4, 1]);
    expect(() => fields.end()).not.toThrow();
    expect(() => new Fields({ top_k: 4, k: 5 }).alias("top_k", "k")).toThrow(
      new InvalidRequestError(
        "k must be what top_k is, for which it is another name: 4, got 5",
        "k",
      ),
    );
  });

  test("describes values that are nested beyond any stack", () => {
    const deep = JSON.parse(`${"[".repeat(100_000)}${"]".repeat(100_000)}`);
    expect(() => new Fields({ deep }).string("deep")).toThrow("deep must be a string, got a list");
  });
});

test("requireIds names the element to blame", () => {
  expect(requireIds([0, 5], "ids", 6)).toEqual([0, 5]);
  expect(() => requireIds([0, -1], "ids", 6)).toThrow(
    "ids[1] must be at least 0 and at most 5, got -1",
  );
  expect(() => requireIds([6], "ids", 6)).toThrow("ids[0] must be at least 0 and at most 5, got 6");
  expect(() => requireIds([0, "1"], "ids", 6)).toThrow('ids[1] must be an integer, got "1"');
  expect(() => requireIds([[1]], "ids", 6)).toThrow("ids[0] must be an integer, got a list");
});

test("present keeps null and drops undefined", () => {
  expect(present<{ a?: number | null; b?: number }>({ a: null, b: undefined })).toEqual({
    a: null,
  });
});
