import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import type { Grammar } from "../../../src/grammar/expression.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import type { Dialect } from "../../../src/grammar/schema/dialect.ts";
import { jsonSchemaGrammar } from "../../../src/grammar/schema/json_schema.ts";
import {
  type Acceptor,
  acceptorOf,
  arrangements,
  compact,
  indented,
  passesMasks,
  spacious,
} from "../samples/schema_acceptance.ts";

const SUITE = "../shared/data/json-schema-test-suite";
const REPORT = join(fileURLToPath(new URL(".", import.meta.url)), "schema_suite_report.md");
const DRAFTS: readonly {
  readonly folder: string;
  readonly dialect: Dialect;
  readonly most: number;
}[] = [
  { folder: "draft2020-12", dialect: "2020-12", most: 0.12 },
  { folder: "draft7", dialect: "draft-07", most: 0.12 },
];
const UNSATISFIABLE = "Cannot use the schema: no value fits it";

interface Group {
  readonly description: string;
  readonly schema: unknown;
  readonly tests: readonly {
    readonly description: string;
    readonly data: unknown;
    readonly valid: boolean;
  }[];
}

interface Outcome {
  readonly file: string;
  readonly group: Group;
  /** Why the schema is refused. */
  readonly reason?: string;
  /** Tests whose instances are judged wrongly. */
  readonly wrong: readonly string[];
}

/**
 * What the suite expects where formats are enforced, as ours are, and content is an annotation, as
 * both drafts say by default. Undefined for what is documented to be narrower.
 */
function expected(
  file: string,
  { description, data, valid }: Group["tests"][number],
): boolean | undefined {
  if (description.endsWith("only an annotation by default")) return false;
  if (file === "optional/content.json") return true;
  // Whether an A-label is valid takes the tables of IDNA, so none is offered.
  if (/^optional\/format\/(idn-)?hostname/.test(file) && /^xn--/.test(String(data)) && valid)
    return undefined;
  // Characters of a label are counted by the most octets that as many of them take in Punycode.
  if (file === "optional/format/idn-hostname.json" && /^label too long if/.test(description))
    return undefined;
  // A U-label is in normalization form C (RFC 5890, section 2.3.2.1); the suite takes others too.
  if (file === "optional/format/idn-email.json" && /not in Unicode NFC is valid/.test(description))
    return undefined;
  // What a pattern refers back to takes memory, so none is offered that does.
  if (file === "optional/format/ecmascript-regex.json" && String(data).includes("\\k<") && valid)
    return undefined;
  // What a metaschema leaves out that is nowhere to be read cannot be known: all keywords count.
  if (file === "vocabulary.json" && description.endsWith("invalid number, but it still validates"))
    return undefined;
  return valid;
}

function judge(file: string, group: Group, dialect: Dialect): Outcome {
  let grammar: Grammar;
  let accept: Acceptor;
  /** Of white space up to a bound. */
  let acceptSpacious: Acceptor;
  try {
    const source = JSON.stringify(group.schema);
    grammar = jsonSchemaGrammar(source, { dialect });
    accept = acceptorOf(grammar);
    acceptSpacious = acceptorOf(jsonSchemaGrammar(source, { dialect, maxWhitespace: 2 }));
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    const wrong = group.tests.filter((one) => error.message === UNSATISFIABLE && one.valid);
    return {
      file,
      group,
      reason: error.message,
      wrong: wrong.map(({ description }) => description),
    };
  }
  const passes = passesMasks(grammar);
  const wrong = group.tests.filter((one) => {
    const wanted = expected(file, one);
    if (wanted === undefined) return false;
    const accepted = [...arrangements(one.data)].filter((value) => accept(compact(value)));
    for (const text of [
      compact(one.data),
      compact(accepted[0] ?? one.data),
      indented(one.data),
      spacious(one.data),
    ]) {
      expect([text, passes(text)]).toEqual([text, accept(text)]);
    }
    const isOffered = (value: unknown) =>
      accept(indented(value)) || acceptSpacious(spacious(value));
    if (!wanted) return accepted.length > 0 || isOffered(one.data);
    const [first] = accepted;
    return accepted.length === 0 || !accept(indented(first)) || !acceptSpacious(spacious(first));
  });
  return { file, group, wrong: wrong.map(({ description }) => description) };
}

function filesOf(folder: string): string[] {
  return readdirSync(join(SUITE, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".json"))
    .sort();
}

function isRefused({ reason }: Outcome): boolean {
  return reason !== undefined && reason !== UNSATISFIABLE;
}

const isRequired = ({ file }: Outcome) => !file.startsWith("optional/");

function report(outcomes: ReadonlyMap<string, readonly Outcome[]>): string {
  const lines = [
    "# JSON-Schema-Test-Suite",
    "",
    "Written by `WISP_UPDATE_SCHEMA_REPORT=1 npx vitest run --project unit test/grammar/schema/schema_suite`.",
    "Every schema that is not refused accepts all valid instances of the suite and rejects all invalid",
    "ones. Formats are enforced, so what the suite calls an annotation is enforced too. A value may have",
    "many texts: a grammar accepts at least the one that is compact, in the order of the schema, with",
    "numbers of `enum` and `const` as the schema writes them, and those in no other way. Other numbers",
    "have up to 40 digits before the point, 24 behind it and 4 in the exponent.",
    "",
    "| draft | part | groups | enforced | no value fits | refused |",
    "|---|---|---|---|---|---|",
  ];
  for (const [draft, all] of outcomes) {
    for (const part of ["required", "optional"]) {
      const list = all.filter((outcome) => isRequired(outcome) === (part === "required"));
      const refused = list.filter(isRefused).length;
      const empty = list.filter(({ reason }) => reason === UNSATISFIABLE).length;
      const counts = [list.length, list.length - refused - empty, empty, refused];
      lines.push(`| ${draft} | ${part} | ${counts.join(" | ")} |`);
    }
  }
  for (const [draft, all] of outcomes) {
    lines.push("", `## Refused in ${draft}`, "");
    for (const { file, group, reason } of all.filter(isRefused)) {
      lines.push(`- ${file}, ${group.description.trim()}: ${reason!.replaceAll("\t", "\\t")}`);
    }
  }
  return `${lines.join("\n")}\n`;
}

describe.skipIf(!existsSync(SUITE))("JSON-Schema-Test-Suite (needs ../shared/data)", () => {
  const outcomes = new Map<string, readonly Outcome[]>();

  beforeAll(() => {
    for (const { folder, dialect } of DRAFTS) {
      const all = filesOf(folder).flatMap((file) => {
        const groups = JSON.parse(readFileSync(join(SUITE, folder, file), "utf8")) as Group[];
        return groups.map((group) => judge(file, group, dialect));
      });
      outcomes.set(folder, all);
    }
  }, 600_000);

  test.each(DRAFTS)(
    "jsonSchemaGrammar enforces or refuses every schema of $folder",
    ({ folder, most }) => {
      const all = outcomes.get(folder)!;
      const wrong = all.filter((one) => one.wrong.length > 0);
      expect(wrong.map((one) => [one.file, one.group.description, ...one.wrong])).toEqual([]);
      const required = all.filter(isRequired);
      expect(required.length).toBeGreaterThan(250);
      expect(required.filter(isRefused).length / required.length).toBeLessThan(most);
    },
  );

  test("the report of refused schemas is true (WISP_UPDATE_SCHEMA_REPORT=1 writes it)", () => {
    const wanted = report(outcomes);
    if (process.env.WISP_UPDATE_SCHEMA_REPORT === "1") writeFileSync(REPORT, wanted);
    expect(readFileSync(REPORT, "utf8")).toBe(wanted);
  });
});
