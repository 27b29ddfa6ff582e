/**
 * Jinja as chat templates expect it: the library's interpreter with the functions that template
 * authors count on, a clock from outside, and loop controls that keep what was printed before them.
 *
 * @module
 */

import { Environment, Interpreter, parse, tokenize } from "@huggingface/jinja";

type Program = ReturnType<typeof parse>;

/** Numbers of one `range()`. */
export const MAX_RANGE = 100_000;
/**
 * Statements of one rendering, some seconds of them: ten for each of 300,000 messages. Loops in loops
 * would go on for as long as they like.
 */
export const MAX_STATEMENTS = 3_000_000;

/** What a rendering that goes on for too long ends with, in whatever form it is tried. */
export class TemplateLimit extends Error {}

/** What a template itself refuses, by calling `raise_exception`. */
export class TemplateRefusal extends Error {}

export class JinjaTemplate {
  /** Names that it reads or sets as variables. */
  readonly variables: ReadonlySet<string>;
  readonly #program: Program;
  readonly #maxStatements: number;

  /**
   * @param maxStatements Of one rendering.
   * @throws {Error} when the source does not parse.
   */
  constructor(source: string, maxStatements = MAX_STATEMENTS) {
    this.#maxStatements = maxStatements;
    this.#program = parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }));
    const names = new Set<string>();
    collectVariables(this.#program, names);
    this.variables = names;
  }

  /**
   * @param variables May not be named like one of the functions.
   * @throws {TemplateRefusal} when the template says that it cannot take these variables.
   * @throws {TemplateLimit} when it takes too many statements or numbers.
   * @throws {Error} when it fails in any other way.
   */
  render(variables: Readonly<Record<string, unknown>>, now: Date): string {
    const environment = new Environment();
    for (const [name, value] of [...Object.entries(globals(now)), ...Object.entries(variables)]) {
      environment.set(name, value);
    }
    const interpreter = new Interpreter(environment);
    keepTextBeforeLoopControls(interpreter);
    limitStatements(interpreter, this.#maxStatements);
    return String(interpreter.run(this.#program).value);
  }
}

/** Nodes of the syntax tree, as far as it matters which names are variables. */
interface SyntaxNode {
  readonly type?: string;
  readonly value?: unknown;
  readonly object?: unknown;
  readonly computed?: boolean;
}

function collectVariables(node: unknown, names: Set<string>): void {
  if (typeof node !== "object" || node === null) return;
  const { type, value, object, computed } = node as SyntaxNode;
  if (type === "Identifier") names.add(String(value));
  // Fields and names of arguments are no variables.
  else if (type === "MemberExpression" && computed !== true) collectVariables(object, names);
  else if (type === "KeywordArgumentExpression") collectVariables(value, names);
  else {
    const parts = node instanceof Map ? [...node].flat() : Object.values(node);
    for (const part of parts) collectVariables(part, names);
  }
}

function globals(now: Date): Readonly<Record<string, unknown>> {
  return {
    true: true,
    True: true,
    false: false,
    False: false,
    none: null,
    None: null,
    range,
    raise_exception: (message: unknown) => {
      throw new TemplateRefusal(String(message));
    },
    strftime_now: (format: unknown) => formatDate(now, String(format)),
  };
}

/** Python's `range`, as long as Jinja's sandbox allows it, in which templates are rendered elsewhere. */
function range(first: number, last?: number, step = 1): number[] {
  const [start, stop] = last === undefined ? [0, first] : [first, last];
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (!(length <= MAX_RANGE)) {
    throw new TemplateLimit(`range() has ${length} numbers, ${MAX_RANGE} at most are allowed`);
  }
  return Array.from({ length }, (_, i) => start + i * step);
}

const MONTHS =
  "January February March April May June July August September October November December".split(
    " ",
  );
const DAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split(" ");

/** Python's `strftime` in the C locale; a directive it does not know stays as it is. */
function formatDate(date: Date, format: string): string {
  const two = (value: number) => String(value).padStart(2, "0");
  const [day, month, year] = [date.getDate(), date.getMonth(), date.getFullYear()];
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  const directives: Readonly<Record<string, string>> = {
    Y: String(year),
    y: two(year % 100),
    m: two(month + 1),
    d: two(day),
    e: String(day).padStart(2),
    B: MONTHS[month]!,
    b: MONTHS[month]!.slice(0, 3),
    A: DAYS[date.getDay()]!,
    a: DAYS[date.getDay()]!.slice(0, 3),
    H: two(date.getHours()),
    I: two(date.getHours() % 12 || 12),
    p: date.getHours() < 12 ? "AM" : "PM",
    M: two(date.getMinutes()),
    S: two(date.getSeconds()),
    F: `${year}-${two(month + 1)}-${two(day)}`,
    T: time,
    "%": "%",
  };
  // A dash asks for no padding.
  return format.replace(/%(-?)([A-Za-z%])/g, (whole, dash: string, letter: string) => {
    const text = directives[letter];
    if (text === undefined) return whole;
    return dash === "" ? text : text.replace(/^[0 ]+(?=.)/, "");
  });
}

/** The two methods of the interpreter that run a loop; the library types them as private. */
interface LoopMethods {
  evaluateFor(node: { readonly body: object }, environment: object): unknown;
  evaluateBlock(statements: readonly object[], environment: object): { readonly value: string };
}

/**
 * `break` and `continue` are errors that a loop catches, and with them the library drops what the
 * same turn of the loop had printed. So the body of a loop ends them itself: `continue` is its end,
 * and after `break` it does nothing for the turns that are left.
 */
function keepTextBeforeLoopControls(interpreter: Interpreter): void {
  const methods = interpreter as unknown as LoopMethods;
  const bodies = new Set<object>();
  const ended = new WeakSet<object>();
  const evaluateFor = methods.evaluateFor.bind(interpreter);
  const evaluateBlock = methods.evaluateBlock.bind(interpreter);
  const printed = new WeakMap<object, string>();
  const empty = () => evaluateBlock([], new Environment());

  methods.evaluateFor = (node, environment) => {
    bodies.add(node.body);
    return evaluateFor(node, environment);
  };
  methods.evaluateBlock = (statements, environment) => {
    if (bodies.has(statements) && ended.has(environment)) return empty();
    let text = "";
    for (const statement of statements) {
      try {
        text += evaluateBlock([statement], environment).value;
      } catch (error) {
        const control = loopControl(error);
        if (control === undefined) throw error;
        text += printed.get(error as object) ?? "";
        printed.set(error as object, text);
        if (!bodies.has(statements)) throw error;
        if (control === "break") ended.add(environment);
        break;
      }
    }
    return Object.assign(empty(), { value: text });
  };
}

/** Ends a rendering that goes on without end: expressions alone cannot. */
function limitStatements(interpreter: Interpreter, most: number): void {
  const methods = interpreter as unknown as LoopMethods;
  const evaluateBlock = methods.evaluateBlock.bind(interpreter);
  let count = 0;
  methods.evaluateBlock = (statements, environment) => {
    count += 1 + statements.length;
    if (count > most) throw new TemplateLimit(`it took more than ${most} statements`);
    return evaluateBlock(statements, environment);
  };
}

function loopControl(error: unknown): "break" | "continue" | undefined {
  if (!(error instanceof Error)) return undefined;
  if (error.constructor === controlError("break")) return "break";
  return error.constructor === controlError("continue") ? "continue" : undefined;
}

const controls = new Map<string, unknown>();

/** Class of the error that stands for a loop control; the library does not export it. */
function controlError(name: "break" | "continue"): unknown {
  if (!controls.has(name)) {
    try {
      new Interpreter(new Environment()).run(parse(tokenize(`{% ${name} %}`)));
    } catch (error) {
      controls.set(name, (error as Error).constructor);
    }
  }
  return controls.get(name);
}
