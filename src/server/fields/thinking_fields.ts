/**
 * Fields by which a chat request says how much the model is to think -> variables of its chat
 * template, which is where models are told so, and the limit at which a thought ends.
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
import { IDLE_REASONING_FIELDS } from "./idle_fields.ts";

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

/** What a request says of thinking. */
export interface AskedThinking {
  readonly templateVariables: Variables | undefined;
  readonly maxThinkingTokens: number | undefined;
}

/**
 * The variables of `chat_template_kwargs`, those that `reasoning_effort`, `reasoning` and `thinking`
 * stand for, and the limit of `max_thinking_tokens`. An effort is no more than a hint, so where the
 * model's template knows none it is ignored.
 *
 * @throws {UnsupportedError} where thinking cannot be turned on or off, or limited, as it is asked for.
 */
export function readThinking(fields: Fields, options: ThinkingFieldsOptions): AskedThinking {
  const given = readTemplateVariables(fields) ?? {};
  const { limit, ...asked } = readWish(fields);
  const wanted = wishedVariables(asked, options);
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
  return {
    templateVariables: Object.keys(all).length === 0 ? undefined : all,
    maxThinkingTokens: limit && thinkingLimit(limit, options),
  };
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

/** One thing that a request wishes, and the field that says it. */
export interface Wish<T> {
  readonly value: T;
  /** Its path, which errors blame. */
  readonly field: string;
  /** Is called where it has no effect. */
  readonly ignored: () => void;
}

export interface ThinkingWishes {
  readonly isOn?: Wish<boolean> | undefined;
  readonly effort?: Wish<string> | undefined;
}

interface ThinkingWish extends ThinkingWishes {
  readonly limit?: Wish<number> | undefined;
}

function readWish(fields: Fields): ThinkingWish {
  const reasoning = fields.object("reasoning");
  const thinking = fields.object("thinking");
  const limits = [
    readLimit(fields, "max_thinking_tokens"),
    reasoning && readLimit(reasoning, "max_tokens"),
    thinking && readLimit(thinking, "budget_tokens"),
  ];
  const switches = [reasoning && readSwitch(reasoning), thinking && readThinkingType(thinking)];
  const efforts = [readEffort(fields, EFFORT), reasoning && readEffort(reasoning, "effort")];
  reasoning?.takeIdle(IDLE_REASONING_FIELDS);
  reasoning?.end();
  thinking?.end();
  const effort = theOne(efforts);
  const isOn = theOne(switches);
  if (isOn !== undefined && effort !== undefined && isOn.value === (effort.value === "none")) {
    throw contradiction(isOn.field, effort.field);
  }
  const isOff = effort?.value === "none" ? { ...effort, value: false } : undefined;
  return { isOn: isOn ?? isOff, effort, limit: theOne(limits) };
}

/** The first of them, which the others have to agree with. */
function theOne<T>(wishes: readonly (Wish<T> | undefined)[]): Wish<T> | undefined {
  const [first, ...others] = wishes.filter((one) => one !== undefined);
  const other = others.find(({ value }) => value !== first!.value);
  if (other !== undefined) throw contradiction(other.field, first!.field);
  return first;
}

function contradiction(field: string, other: string): InvalidRequestError {
  return new InvalidRequestError(`Cannot use ${field}: it contradicts ${other}`, field);
}

/** The field as a wish; undefined when it is absent. */
export function wish<T>(fields: Fields, name: string, value: T | undefined): Wish<T> | undefined {
  if (value === undefined) return undefined;
  const field = fields.path(name);
  return { value, field, ignored: () => fields.ignore(field) };
}

function readLimit(fields: Fields, name: string): Wish<number> | undefined {
  return wish(fields, name, fields.integer(name, { min: 0 }));
}

function readSwitch(reasoning: Fields): Wish<boolean> | undefined {
  return wish(reasoning, "enabled", reasoning.boolean("enabled"));
}

/** Of `thinking`: "adaptive" leaves it to the model, which "enabled" allows it to. */
export function readThinkingType(thinking: Fields): Wish<boolean> | undefined {
  const type = thinking.string("type");
  if (type === undefined || type === "adaptive") return undefined;
  if (type === "enabled" || type === "disabled") return wish(thinking, "type", type === "enabled");
  throw outOfRange(thinking.path("type"), "one of enabled, disabled, adaptive", type);
}

function readEffort(fields: Fields, name: string): Wish<string> | undefined {
  const effort = fields.string(name);
  if (effort === undefined || ALL_EFFORTS.includes(effort)) return wish(fields, name, effort);
  throw outOfRange(fields.path(name), `one of ${EFFORTS.join(", ")}`, effort);
}

/**
 * The variables of the model's chat template that wishes stand for.
 *
 * @throws {UnsupportedError} where thinking cannot be turned on or off as it is asked for.
 */
export function wishedVariables(
  { isOn, effort }: ThinkingWishes,
  options: ThinkingFieldsOptions,
): Variables {
  return {
    ...(isOn !== undefined && switchVariables(isOn, options)),
    ...(effort !== undefined && effortVariable(effort, options)),
  };
}

/**
 * The tokens after which a thought ends; undefined for a model that is not known to think.
 *
 * @throws {UnsupportedError} where the server does not know where a thought begins and ends.
 */
export function thinkingLimit(
  { value, field, ignored }: Wish<number>,
  { model, forms }: ThinkingFieldsOptions,
): number | undefined {
  if (forms.reasoning !== undefined && forms.reasoning !== "gpt-oss") return value;
  if (forms.reasoning === undefined && parsersOf(model.family).reasoning === undefined) {
    ignored();
    return undefined;
  }
  const reason =
    forms.reasoning === undefined
      ? "the server has no --reasoning-parser"
      : "thoughts of gpt-oss are messages on channels";
  throw new UnsupportedError(field, reason, { field });
}

function switchVariables(
  { value: isOn, field, ignored }: Wish<boolean>,
  { model, forms }: ThinkingFieldsOptions,
): Variables {
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

function effortVariable(
  { value: effort, field, ignored }: Wish<string>,
  { model }: ThinkingFieldsOptions,
): Variables {
  if (effort === "none") return {};
  if (!model.thinkingVariables.includes(EFFORT)) {
    ignored();
    return {};
  }
  if (EFFORTS.includes(effort)) return { [EFFORT]: effort };
  throw outOfRange(field, `one of ${EFFORTS.join(", ")}`, effort);
}
