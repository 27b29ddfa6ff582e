/**
 * Fields by which a chat request says how much the model is to think -> variables of its chat
 * template, which is where models are told so.
 *
 * @module
 */
import { InvalidRequestError, UnsupportedError } from "../../errors.ts";
import type { ModelDescription } from "../../generation.ts";
import { type Fields, isObject, outOfRange, wrongType } from "../../http/fields.ts";
import { MAX_TEMPLATE_UNITS } from "../../request_limits.ts";
import { parsersOf } from "../../text/family_parsers.ts";
import { thinkingOf } from "../../text/message_parser.ts";
import type { MessageForms } from "../server_context.ts";
import { requireShortJson } from "./field_limits.ts";

export interface ThinkingFieldsOptions {
  readonly model: ModelDescription;
  readonly forms: MessageForms;
}

type Variables = Readonly<Record<string, unknown>>;

/** Templates of different families call the switch differently. */
const SWITCHES = ["thinking", "enable_thinking"];
const EFFORT = "reasoning_effort";
/** Those that templates know. */
const EFFORTS = ["none", "low", "medium", "high"];
/** Those that clients know. */
const ALL_EFFORTS = [...EFFORTS, "minimal", "xhigh"];

/**
 * The variables of `chat_template_kwargs`, and those that `reasoning_effort` and `reasoning` stand for.
 * An effort is no more than a hint, so where the model's template knows none it is ignored.
 *
 * @throws {UnsupportedError} where thinking cannot be turned on or off as it is asked for.
 */
export function readThinking(
  fields: Fields,
  options: ThinkingFieldsOptions,
): Variables | undefined {
  const given = readTemplateVariables(fields) ?? {};
  const wanted = wantedVariables(fields, options);
  const contradicted = Object.keys(wanted).find(
    (name) => Object.hasOwn(given, name) && given[name] !== wanted[name],
  );
  if (contradicted !== undefined) {
    const path = `chat_template_kwargs.${contradicted}`;
    throw new InvalidRequestError(
      `Cannot use ${path}: it contradicts ${EFFORT} or reasoning`,
      path,
    );
  }
  const all = { ...wanted, ...given };
  return Object.keys(all).length === 0 ? undefined : all;
}

/** Variables for the chat template; it checks their names. */
export function readTemplateVariables(fields: Fields): Variables | undefined {
  const value = fields.value("chat_template_kwargs");
  if (value === undefined) return undefined;
  if (!isObject(value)) throw wrongType("chat_template_kwargs", "an object", value);
  requireShortJson(value, "chat_template_kwargs", MAX_TEMPLATE_UNITS);
  return Object.keys(value).length === 0 ? undefined : value;
}

/** Whether a request's variables ask for thinking that is not there without them. */
export function asksToThink(variables: Variables = {}): boolean {
  return SWITCHES.some((name) => variables[name] === true);
}

function wantedVariables(fields: Fields, options: ThinkingFieldsOptions): Variables {
  const reasoning = fields.object("reasoning");
  const enabled = reasoning?.boolean("enabled");
  const inner = reasoning && readEffort(reasoning, "effort");
  reasoning?.end();
  const effort = readEffort(fields, EFFORT) ?? inner;
  if (inner !== undefined && inner !== effort) {
    throw new InvalidRequestError(
      `Cannot use reasoning.effort: it contradicts ${EFFORT}`,
      "reasoning.effort",
    );
  }
  if (enabled !== undefined && effort !== undefined && enabled === (effort === "none")) {
    const message = `Cannot use reasoning.enabled: it contradicts the effort ${JSON.stringify(effort)}`;
    throw new InvalidRequestError(message, "reasoning.enabled");
  }
  const isOn = enabled ?? (effort === "none" ? false : undefined);
  const field = enabled === undefined ? EFFORT : "reasoning.enabled";
  const ignored = () => fields.ignore(reasoning === undefined ? EFFORT : "reasoning");
  return {
    ...(isOn !== undefined && switchVariables(isOn, { ...options, field, ignored })),
    ...(effort !== undefined && effortVariable(effort, { ...options, field, ignored })),
  };
}

function readEffort(fields: Fields, name: string): string | undefined {
  const effort = fields.string(name);
  if (effort === undefined || ALL_EFFORTS.includes(effort)) return effort;
  throw outOfRange(fields.path(name), `one of ${EFFORTS.join(", ")}`, effort);
}

interface WishOptions extends ThinkingFieldsOptions {
  /** The field that errors blame. */
  readonly field: string;
  /** Is called where a wish has no effect. */
  readonly ignored: () => void;
}

function switchVariables(isOn: boolean, { model, forms, field, ignored }: WishOptions): Variables {
  const read = SWITCHES.filter((name) => model.thinkingVariables.includes(name));
  if (read.length > 0) return Object.fromEntries(read.map((name) => [name, isOn]));
  if (isOn ? thinkingOf(forms)?.isOpen : !thinksUnasked({ model, forms })) {
    ignored();
    return {};
  }
  throw new UnsupportedError(
    `reasoning turned ${isOn ? "on" : "off"}`,
    `the model's chat template does not read ${SWITCHES.join(" or ")}`,
    { field },
  );
}

/** Whether answers may have thoughts that no request asked for, as far as is known. */
function thinksUnasked({ model, forms }: ThinkingFieldsOptions): boolean {
  const form = forms.reasoning ?? parsersOf(model.family).reasoning;
  return form !== undefined && form !== "deepseek-v3";
}

function effortVariable(effort: string, { model, ignored }: WishOptions): Variables {
  if (effort === "none") return {};
  if (!model.thinkingVariables.includes(EFFORT)) {
    ignored();
    return {};
  }
  if (EFFORTS.includes(effort)) return { [EFFORT]: effort };
  throw outOfRange(EFFORT, `one of ${EFFORTS.join(", ")}`, effort);
}
