import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runCommand } from "../../../src/node/command.ts";
import { acceptorOfSchema } from "../../grammar/samples/schema_acceptance.ts";

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "wisp-schema-"));
});

afterAll(() => rmSync(folder, { recursive: true }));

async function check(schema: unknown, ...args: readonly string[]) {
  const file = join(folder, "schema.json");
  writeFileSync(file, typeof schema === "string" ? schema : JSON.stringify(schema));
  const [out, err]: [string[], string[]] = [[], []];
  const code = await runCommand(["check-schema", file, ...args], {
    startEngine: () => Promise.reject(new Error("no engine is needed")),
    stdout: { write: (text: string) => out.push(text) > 0 },
    stderr: { write: (text: string) => err.push(text) > 0 },
  });
  return { code, stdout: out.join(""), stderr: err.join("") };
}

const ORDER = {
  $schema: "http://json-schema.org/draft-07/schema#",
  title: "Order",
  type: "object",
  properties: {
    id: { type: "string", format: "uuid" },
    lines: { type: "array", minItems: 1, items: { $ref: "#/definitions/line" } },
    total: { type: "number", exclusiveMinimum: 0 },
  },
  required: ["id", "lines"],
  additionalProperties: false,
  maxProperty: 3,
  definitions: {
    line: {
      type: "object",
      properties: { sku: { pattern: "^[A-Z]{2}\\d{4}$" } },
      required: ["sku"],
    },
  },
};

describe("wisp check-schema", () => {
  test("tells keywords, warnings, size and an answer that fits", async () => {
    const { code, stdout } = await check(ORDER);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^Schema: +7 in all, draft-07$/m);
    expect(stdout).toMatch(/^Enforced: .*\$ref 1, .*minItems 1, .*type 5$/m);
    expect(stdout).not.toMatch(/^Enforced: .*title/m);
    expect(stdout).toContain('Ignored "maxProperty"');
    const [, example] = /^Example: +(.+)$/m.exec(stdout)!;
    expect(acceptorOfSchema(ORDER)(example!)).toBe(true);
    expect(Object.keys(JSON.parse(example!))).toEqual(["id", "lines", "total"]);
  });

  test.each([
    true,
    { enum: [1.5, "b"] },
    { type: "array", uniqueItems: true, minItems: 3 },
    {
      $defs: {
        t: { type: "object", properties: { next: { $ref: "#/$defs/t" }, v: { type: "null" } } },
      },
      $ref: "#/$defs/t",
    },
  ])("prints JSON for programs: %j", async (schema) => {
    const { code, stdout } = await check(schema, "--json", "--json-order", "schema");
    expect(code).toBe(0);
    const report = JSON.parse(stdout);
    expect(report).toMatchObject({ dialect: "2020-12", warnings: [] });
    if (report.example !== undefined) {
      expect(acceptorOfSchema(schema, { order: "schema" })(report.example)).toBe(true);
    }
  });

  test.each([
    {
      type: "object",
      properties: Object.fromEntries(Array.from("abcdef", (key) => [key, { $ref: "#" }])),
    },
    { type: "array", items: { const: "a".repeat(2_000) }, minItems: 1_000 },
  ])("shows no example that is too long: %#", async (schema) => {
    const { code, stdout } = await check({ ...schema, additionalProperties: false }, "--json");
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).not.toHaveProperty("example");
  });

  test("ends with 1 and the reason where a schema is refused", async () => {
    const refused = await check(
      { type: "object", additionalPropertes: false },
      "--json-unknown",
      "refuse",
    );
    expect([refused.code, refused.stdout]).toEqual([1, ""]);
    expect(refused.stderr).toContain("additionalPropertes");
    expect(await check("{", "--json")).toMatchObject({ code: 1 });
    expect(await check(true, "more")).toMatchObject({ code: 2 });
  });
});
