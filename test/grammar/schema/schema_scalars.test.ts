import { describe, expect, test } from "vitest";
import { compileAutomaton } from "../../../src/grammar/automaton/compile_automaton.ts";
import { jsonSchemaGrammar } from "../../../src/grammar/schema/json_schema.ts";
import { acceptorOf, acceptorOfSchema, spacious } from "../samples/schema_acceptance.ts";
import { judge, refusal } from "../samples/schema_judge.ts";

describe("any JSON", () => {
  test("any value, as RFC 8259 says, without white space around it", () => {
    const accept = acceptorOf(jsonSchemaGrammar(true));
    for (const yes of [
      "1",
      '"a"',
      "null",
      "[]",
      "{}",
      '{"a": [1,\n2.5e-3, -0]}',
      '"\\ud83d\\ude00"',
    ]) {
      expect(accept(yes), yes).toBe(true);
    }
    for (const no of [
      "",
      " 1",
      "1 ",
      "01",
      "1.",
      ".5",
      "+1",
      "'a'",
      "[1,]",
      '{"a":1,}',
      "{a:1}",
      "nul",
      '"\n"',
      '"\\x"',
      "[1 2]",
    ]) {
      expect(accept(no), no).toBe(false);
    }
  });

  test("an object, for JSON mode", () => {
    const accept = acceptorOf(jsonSchemaGrammar({ type: "object" }));
    expect(accept('{"a": {"b": []}}')).toBe(true);
    for (const no of ["[]", "1", '"{}"']) expect(accept(no)).toBe(false);
  });

  test("white space is bounded, and compact JSON has none", () => {
    const bounded = acceptorOf(jsonSchemaGrammar(true, { maxWhitespace: 2 }));
    expect(bounded("[\n 1\t\r,2]")).toBe(true);
    expect(bounded("[   1]")).toBe(false);
    const compact = acceptorOf(jsonSchemaGrammar(true, { maxWhitespace: 0 }));
    expect(compact('{"a":[1,2]}')).toBe(true);
    expect(compact('{"a": [1,2]}')).toBe(false);
    const value = { a: [1, { b: [], c: {} }] };
    expect(bounded(spacious(value))).toBe(true);
    expect(compact(spacious(value))).toBe(false);
  });

  test.each<[string, (value: unknown) => string]>([
    ["compact", (value) => JSON.stringify(value)],
    ["with spaces", (value) => JSON.stringify(value).replace(/([,:])/g, "$1 ")],
    [
      "with spaces inside of brackets",
      (value) =>
        JSON.stringify(value)
          .replace(/([,:])/g, "$1 ")
          .replace(/([[{])(?![\]}])/g, "$1 ")
          .replace(/(?<![[{])([\]}])/g, " $1"),
    ],
    ["indented by two", (value) => JSON.stringify(value, null, 2)],
    ["indented by four", (value) => JSON.stringify(value, null, 4)],
    ["indented by tabs", (value) => JSON.stringify(value, null, "\t")],
    [
      "on lines without indentation",
      (value) => JSON.stringify(value, null, 1).replace(/\n +/g, "\n"),
    ],
  ])("white space is what models write: %s", (_, write) => {
    const value = { a: [1, 2, { b: [], c: {}, d: [[true], "x"] }], e: null };
    const text = write(value);
    expect(acceptorOf(jsonSchemaGrammar(true))(text), text).toBe(true);
    const properties = {
      a: {
        prefixItems: [{ type: "integer" }, {}],
        items: { properties: { b: { maxItems: 0 }, c: { type: "object" } } },
      },
      e: { type: "null" },
    };
    expect(acceptorOfSchema({ properties, required: ["a"] })(text), text).toBe(true);
  });

  test.each([
    [{ items: { enum: [1] }, type: "array" }, "[\n    1,\n\t1\n]", "[\n     1\n]"],
    [{ items: { enum: [1] }, type: "array" }, "[\n 1\n]", "[\n1\n ]"],
    [{ items: { enum: [1] }, type: "array" }, "[\n\t1]", "[\n\t\t1]"],
    [{ enum: [[[1]]] }, "[\n[\n        1\n    ]\n]", "[\n[\n         1]]"],
    [{ enum: [[[1]]] }, "[\n\t[\n\t\t1\n\t]\n]", "[[1\n\t\t]]"],
    [true, `[\n${" ".repeat(32)}1]`, `[\n${" ".repeat(33)}1]`],
    [{ type: "array", items: { $ref: "#" } }, `[\n${" ".repeat(32)}[]]`, "[\n  1]"],
  ])("lines are indented no further than values of %j nest", (schema, yes, no) => {
    const accept = acceptorOfSchema(schema);
    expect([accept(yes), accept(no)]).toEqual([true, false]);
  });

  test.each([
    "[\n\n1]",
    "[ \n1]",
    "[  1]",
    "[1 ,2]",
    "[1,  2]",
    "[1,\r\n2]",
    "[1\n,2]",
    "[1, \n2]",
    "[1\n\n]",
    "[ ]",
    "[\n]",
    "{\n}",
    '{"a" :1}',
    '{"a":  1}',
    '{"a":\n1}',
    '{"a":\t1}',
    `[\n${" ".repeat(33)}1]`,
    `[\n${"\t".repeat(9)}1]`,
    "[\n \t1]",
    "[\t1]",
  ])("white space that no model needs is not offered: %j", (text) => {
    expect(JSON.parse(text)).toBeDefined();
    expect(acceptorOf(jsonSchemaGrammar(true))(text)).toBe(false);
    const listed = { items: { type: "integer" }, properties: { a: { type: "integer" } } };
    expect(acceptorOfSchema(listed)(text)).toBe(false);
  });

  test("bytes that are no UTF-8 are not offered", () => {
    const { nodes } = compileAutomaton(jsonSchemaGrammar(true));
    const bytes = Array.from({ length: nodes.length }, (_, node) =>
      nodes.at(node).edges.map(({ last }) => last),
    ).flat();
    expect(Math.max(...bytes)).toBe(0xf4);
  });
});

describe("numbers", () => {
  test.each<[object, string[], string[]]>([
    [
      { type: "integer", minimum: -5, maximum: 120 },
      ["-5", "0", "-0", "99", "120"],
      ["-6", "121", "1200", "-", "5.0", "05"],
    ],
    [{ type: "integer", exclusiveMinimum: 0, exclusiveMaximum: 10 }, ["1", "9"], ["0", "-0", "10"]],
    [{ type: "integer", minimum: -5 }, ["-5", "1234567"], ["-6", "-", "-10", "1e400"]],
    [
      { minimum: 0.5, maximum: 10, type: "number" },
      ["0.5", "0.50", "5e-1", "9.99", "10.000", "1e+01"],
      ["0.49", "10.1", "1.1e1", "4.9e-1", "0.4"],
    ],
    [
      { type: "number", exclusiveMinimum: -1.25 },
      ["-1.2", "-0", "0", "-1.2499", "1e300", "1.7976931348623157e+308"],
      ["-1.25", "-1.250", "-2", "-1.25e0", "-1.3"],
    ],
    [{ type: "number", maximum: 0 }, ["0", "-0.0", "-3", "-1e9"], ["0.1", "1e-9", "1"]],
    [{ type: "number", exclusiveMaximum: 0 }, ["-0.1", "-1e-9"], ["0", "-0", "1"]],
    [{ type: "number", minimum: 1e-7 }, ["1e-7", "0.0000001", "2e-7", "1"], ["9e-8", "1e-8", "0"]],
    [{ type: "integer", multipleOf: 3 }, ["0", "-3", "12", "300"], ["1", "-4", "100"]],
    [
      { type: "number", multipleOf: 0.01 },
      ["1", "1.5", "1.25", "1.250", "-0.07"],
      ["1.255", "0.001"],
    ],
    [{ type: "number", multipleOf: 2.5 }, ["0", "2.5", "5", "7.50"], ["2", "2.51", "1.25"]],
    [{ type: "integer", multipleOf: 1.5 }, ["3", "0"], ["1", "2", "4"]],
    [{ type: "number", not: { multipleOf: 2 } }, ["1", "2.5", "3"], ["2", "4.0"]],
    [
      { type: "integer", multipleOf: 4, minimum: 10, maximum: 20 },
      ["12", "16", "20"],
      ["8", "24", "14"],
    ],
    [{ type: "number", not: { type: "integer" } }, ["0.5", "1e-3", "1.01"], ["1", "1.0", "1e5"]],
    [
      { type: "number", not: { enum: [1, 2] } },
      ["0", "1.5", "3", "12"],
      ["1", "1.0", "2.00", "1e0"],
    ],
    [{ const: 1.0 }, ["1"], ["1.0", "1e0", "1.01", "10", "-1", "1e1", "true"]],
    [{ const: 1.5 }, ["1.5"], ["1.50", "1.5e0", "15", "1.05", "1"]],
    [{ const: 0 }, ["0"], ["-0", "0.0", "1", "0.1", '""', "false"]],
    [{ const: 1e21 }, ["1e+21"], ["1e21", "1000000000000000000000", "1e20", "100"]],
    [{ type: "integer", enum: [1, 20, 2.5] }, ["1", "20"], ["2.5", "1.0", "2"]],
    [{ type: "integer" }, ["0", "12", "1e21", "1.5e+300"], ["1.5", "1.0", "1e-3", "1e2"]],
  ])("%j", (schema, yes, no) => judge(schema, yes, no));

  test.each([
    {},
    { type: "number" },
    { type: "integer" },
    { type: "number", minimum: 0 },
    { type: "number", minimum: -1, exclusiveMaximum: 1.5 },
    { type: "number", not: { multipleOf: 2 } },
    { type: "integer", multipleOf: 3 },
  ])("numbers come to an end: %j", (schema) => {
    const accept = acceptorOfSchema(schema);
    for (const digits of ["0", "1", "3", "9"]) {
      for (const begin of ["", "-", "1", "1.", "0.", "1.5e", "1e+", "1e-"]) {
        const text = begin + digits.repeat(41);
        expect(accept(text), text).toBe(false);
        if (begin.includes(".")) expect(accept(begin + digits.repeat(25)), text).toBe(false);
      }
    }
  });

  test("numbers that programs print are short enough", () => {
    judge(
      { type: "number", minimum: -1e40 },
      ["123456789012345680000", "0.000001234567890123456", "-2.5e-300", "1.7976931348623157e+308"],
      [],
    );
    const long = "9".repeat(39);
    judge({ type: "integer" }, [long, `-${long}`, "18446744073709551615"], []);
    judge({ type: "number" }, [long, `${long}.${"9".repeat(24)}`, "1E-0324"], []);
    // Bounds may ask for more digits than that.
    const [low, high] = [`0.${"1".repeat(59)}`, `0.${"1".repeat(58)}3`];
    judge(`{"type": "number", "minimum": ${low}, "maximum": ${high}}`, [low, high], ["0.1"]);
  });

  test("numbers of enum and const are written as in the schema, and never on and on", () => {
    judge('{"enum": ["x", 1]}', ['"x"', "1"], ["1e0", "1.0", "1.", "01", "1E00000"]);
    judge('{"enum": [1, 2]}', ["1", "2"], ["1.0", "1.000000000000000000", "2e0"]);
    judge('{"const": 1.50}', ["1.50"], ["1.5", "1.500", "15e-1"]);
    judge('{"enum": [1E2, -0, 1e-7]}', ["1E2", "-0", "1e-7"], ["100", "1e2", "0", "0.0000001"]);
    judge(
      '{"enum": [9007199254740993, 123456789012345678901234567890]}',
      ["9007199254740993", "123456789012345678901234567890"],
      ["9007199254740992", "9007199254740993.0", "1.2345678901234568e+29"],
    );
  });

  test("numbers inside of listed arrays and objects are written as in the schema", () => {
    judge(
      '{"const": {"a": [1.0, {"b": 2e0}], "c": 3}}',
      ['{"a":[1.0,{"b":2e0}],"c":3}'],
      ['{"a":[1,{"b":2e0}],"c":3}', '{"a":[1.0,{"b":2}],"c":3}', '{"a":[1.0,{"b":2e0}],"c":3.0}'],
    );
    judge('{"enum": [[1.0, 2], [1, 2.0]]}', ["[1.0,2]", "[1,2.0]"], ["[1,2]", "[1.0,2.0]"]);
    judge(
      '{"type": "array", "items": {"enum": [1.0, 20]}, "uniqueItems": true}',
      ["[]", "[1.0,20]", "[20,1.0]"],
      ["[1,20]", "[1.0,1.0]", "[1.0,1]"],
    );
  });

  test("a listed number fits what else the schema says by its value, however it is written", () => {
    judge(
      '{"enum": [1.0, 2, 3.5, 1e1], "type": "integer", "maximum": 9}',
      ["1.0", "2"],
      ["3.5", "1"],
    );
    judge('{"allOf": [{"enum": [1.0, 2]}, {"enum": [3, 1]}]}', ["1.0"], ["1", "2", "3"]);
    judge('{"enum": [1, 1.0, 1e0]}', ["1"], ["1.0", "1e0"]);
    judge('{"enum": [1, 2], "not": {"const": 1.0}}', ["2"], ["1", "1.0"]);
    judge('{"type": "string", "minLength": 2.0}', ['"ab"'], ['"a"']);
  });

  test("bounds at random agree with arithmetic", () => {
    let state = 11;
    const random = (count: number) => {
      state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
      return (state >> 8) % count;
    };
    const decimal = () => (random(4001) - 2000) / 10 ** random(4);
    for (let round = 0; round < 60; round++) {
      const [a, b] = [decimal(), decimal()].sort((x, y) => x - y) as [number, number];
      const [low, high] = [random(2) === 0, random(2) === 0];
      const accept = acceptorOfSchema({
        type: "number",
        [low ? "minimum" : "exclusiveMinimum"]: a,
        [high ? "maximum" : "exclusiveMaximum"]: b + 1,
      });
      for (let i = 0; i < 40; i++) {
        const value = [decimal(), a, b + 1, a + random(3) / 10][i % 4]!;
        const fits = (low ? value >= a : value > a) && (high ? value <= b + 1 : value < b + 1);
        const shown = `${value} in ${a}..${b + 1}`;
        expect(accept(JSON.stringify(value)), shown).toBe(fits);
        if (value !== 0) expect(accept(value.toExponential()), shown).toBe(fits);
      }
    }
  });

  test("numbers beyond doubles keep their digits", () => {
    judge(
      '{"type": "integer", "maximum": 9223372036854775807}',
      ["9223372036854775807"],
      ["9223372036854775808"],
    );
    judge(
      '{"const": 0.1000000000000000055511151231257827}',
      ["0.1000000000000000055511151231257827"],
      ["0.1"],
    );
    judge('{"enum": [1e400]}', ["1e400"], ["1e399", "1e401"]);
  });
});

describe("strings", () => {
  test.each<[object, string[], string[]]>([
    [
      { type: "string", minLength: 2, maxLength: 3 },
      ['"ab"', '"\\n\\u00e9"', '"\\ud83d\\ude00x"', '"😀é語"', '"\\\\\\""'],
      ['"a"', '"😀"', '"\\ud83d\\ude00"', '"abcd"', '"a\\"'],
    ],
    [
      { const: 'a"\\/é' },
      ['"a\\"\\\\/é"', '"a\\u0022\\u005c/\\u00E9"'],
      ['"a"\\/é"', '"a\\"/é"', '"\\u0061\\"\\\\/é"'],
    ],
    [
      { type: "string", pattern: "^[^x]*$" },
      ['"a\\"b"', '"é\\n"', '""'],
      ['"x"', '"a"b"', '"\n"', '"\\u0078"'],
    ],
    [{ type: "string", pattern: "^[一-龥]{2}$" }, ['"中文"', '"\\u4e2d\\u6587"'], ['"中"', '"ab"']],
    [{ type: "string", pattern: "^[а-я]+$" }, ['"привет"'], ['"Привет"', '""']],
    [{ type: "string", pattern: "b" }, ['"abc"', '"b"'], ['"ac"']],
    [
      { pattern: "^a", minLength: 2, maxLength: 3 },
      ['"ab"', '"abc"', "1", "null"],
      ['"a"', '"ba"', '"abcd"'],
    ],
    [{ type: "string", not: { pattern: "^a" } }, ['"b"', '""', '"ba"'], ['"a"', '"\\u0061b"']],
    [
      { type: "string", not: { enum: ["a", "é"] } },
      ['"b"', '""', '"aa"'],
      ['"a"', '"é"', '"\\u00e9"'],
    ],
    [
      { type: "string", format: "date", not: { const: "2024-02-29" } },
      ['"2024-02-28"', '"2000-02-29"'],
      ['"2024-02-29"', '"1900-02-29"', '"2023-02-29"'],
    ],
    [
      { type: "string", format: "date-time", maxLength: 20 },
      ['"2024-02-28T10:00:00Z"'],
      ['"2024-02-28T10:00:00.5Z"'],
    ],
    [
      { type: "string", pattern: "^[a-z]{0,4096}$" },
      ['"abc"', `"${"z".repeat(4096)}"`],
      ['"A"', `"${"z".repeat(4097)}"`],
    ],
  ])("%j", (schema, yes, no) => judge(schema, yes, no));

  test("half a surrogate pair is no text", () => {
    judge({ type: "string" }, ['"\\ud83d\\ude00"'], ['"\\ud83d"', '"\\ude00\\ud83d"']);
    expect(refusal({ const: "\ud83d" }).message).toContain("surrogate");
  });
});

test("a hundred thousand values of an enumeration, those that end alike sharing states", () => {
  const values = Array.from({ length: 100_000 }, (_, i) => `v${(i * 7919) % 1_000_003}`);
  const accept = acceptorOfSchema(JSON.stringify({ enum: values }));
  for (const value of values.slice(-100)) expect(accept(`"${value}"`)).toBe(true);
  for (const no of ["v1", "v", `${values[5]}0000`]) expect(accept(`"${no}"`)).toBe(false);
});
