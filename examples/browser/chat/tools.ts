/**
 * The demo's tools, a clock and a calculator: what the model is told of them, and how they run.
 *
 * A model writes arguments as it likes, so each tool reads its own and says what is wrong with them;
 * the model gets to see that too, and may try again.
 *
 * @module
 */

export interface Tool {
  readonly name: string;
  readonly description: string;
  /** JSON schemas by the names of the parameters, all of which must be given. */
  readonly parameters: Readonly<Record<string, ParameterSchema>>;
  /** @throws {Error} saying what is wrong with the arguments. */
  run(args: Arguments): unknown;
}

interface ParameterSchema {
  readonly type: "string" | "number";
  readonly description?: string;
}

export type Arguments = Readonly<Record<string, string | number>>;

/** The clock knows the cities that time zones are named after, such as America/New_York. */
const ZONES: ReadonlyMap<string, string> = new Map(
  Intl.supportedValuesOf("timeZone").map((zone) => [cityOf(zone), zone]),
);

const clock: Tool = {
  name: "get_time",
  description: "Get the current time in a city.",
  parameters: { city: { type: "string", description: "City name" } },
  run: ({ city }) => {
    const zone = ZONES.get(plain(String(city)));
    if (zone === undefined) throw new Error(`no time zone is named after "${city}"`);
    const format = new Intl.DateTimeFormat("en-GB", { timeZone: zone, timeStyle: "short" });
    return { time: format.format(new Date()) };
  },
};

const calculator: readonly Tool[] = [
  operation("add", "Add two numbers.", (a, b) => a + b),
  operation("subtract", "Subtract b from a.", (a, b) => a - b),
  operation("multiply", "Multiply two numbers.", (a, b) => a * b),
  operation("divide", "Divide a by b.", (a, b) => {
    if (b === 0) throw new Error("cannot divide by 0");
    return a / b;
  }),
];

export const TOOLS: readonly Tool[] = [clock, ...calculator];

/** In OpenAI's form, for the chat template. */
export function toolSchemas(tools: readonly Tool[]): readonly object[] {
  return tools.map(({ name, description, parameters }) => ({
    type: "function",
    function: {
      name,
      description,
      parameters: { type: "object", properties: parameters, required: Object.keys(parameters) },
    },
  }));
}

export interface ToolOutcome {
  /** JSON for the model. */
  readonly result: string;
  readonly isRefused: boolean;
}

/** Runs what the model has called. What is wrong with the call becomes its result. */
export function runTool(tools: readonly Tool[], name: string, written: string): ToolOutcome {
  try {
    const tool = tools.find((one) => one.name === name);
    if (tool === undefined) throw new Error(`there is no tool ${name}`);
    const value = tool.run(readArguments(tool, written));
    const result = typeof value === "object" ? value : { result: value };
    return { result: JSON.stringify(result), isRefused: false };
  } catch (error) {
    return { result: JSON.stringify({ error: (error as Error).message }), isRefused: true };
  }
}

function readArguments({ parameters }: Tool, written: string): Arguments {
  let given: unknown;
  try {
    given = JSON.parse(written);
  } catch {
    throw new Error("the arguments are not JSON");
  }
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw new Error("the arguments are not an object");
  }
  const unknown = Object.keys(given).find((key) => !Object.hasOwn(parameters, key));
  if (unknown !== undefined) throw new Error(`there is no parameter ${unknown}`);
  for (const [key, { type }] of Object.entries(parameters)) {
    const value: unknown = (given as Record<string, unknown>)[key];
    if (value === undefined) throw new Error(`${key} is missing`);
    if (typeof value !== type) throw new Error(`${key} must be a ${type}`);
  }
  return given as Arguments;
}

function operation(
  name: string,
  description: string,
  compute: (a: number, b: number) => number,
): Tool {
  return {
    name,
    description,
    parameters: { a: { type: "number" }, b: { type: "number" } },
    run: ({ a, b }) => compute(Number(a), Number(b)),
  };
}

function cityOf(zone: string): string {
  return plain(zone.slice(zone.lastIndexOf("/") + 1).replaceAll("_", " "));
}

/** Without accents and capitals: "São Paulo" and "sao paulo" are one city. */
function plain(name: string): string {
  return name.normalize("NFD").replace(/\p{M}/gu, "").trim().toLowerCase();
}
