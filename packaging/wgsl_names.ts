/**
 * Short names for what kernels declare, the shortest for what is named most.
 *
 * A name is short in the same way in all kernels: their texts are joined when they are used, and what
 * looks alike compresses well. Names that a program looks up stay: bindings, `Params` and its members,
 * and the constants and types that a program specialises or puts in.
 *
 * @module
 */
import { parseAst } from "vite";

/** What words of kernels are called instead. */
export interface KernelNames {
  /** What is declared outside of functions. */
  readonly declared: ReadonlyMap<string, string>;
  /** Parameters and variables of functions, in those that declare them. */
  readonly locals: ReadonlyMap<string, string>;
  /** Members of structs. */
  readonly members: ReadonlyMap<string, string>;
}

const LETTERS = [..."abcdefghijklmnopqrstuvwxyz"];
const CAPITALS = LETTERS.map((letter) => letter.toUpperCase());
/** The words of WGSL, used or reserved, that have two letters. */
const RESERVED = ["as", "do", "fn", "if", "of"];
/** The members that values have which are not structs of ours. */
const FOREIGN_MEMBER = /^([xyzw]{1,4}|[rgba]{1,4}|fract|whole|exp|old_value|exchanged)$/;

const WORD = /[A-Za-z_]\w*/g;
/** Numbers, attributes and address spaces, which have words that name nothing, then names. */
const TOKEN = /\d[\w.]*|@builtin\(\w+\)|@\w+|var<[^>]*>|\.?[A-Za-z_]\w*/g;
const DECLARED = /^(fn|struct|const|alias|var<(?:private|workgroup)>) ?(\w+)/;
const BOUND = /^@group.*var<storage.*?> ?(\w+):/;
const UNIFORM = /^@group.*var<uniform> ?(\w+):/;
const STRUCT = /^struct (\w+) ?\{(.*)\}$/;
const MEMBER = /(?<=[{,)] ?)\w+(?=:)/g;
const LOCAL = /\b(?:let|var|const) (\w+)|[(,](?:@builtin\(\w+\) ?)?(\w+):/g;

/**
 * Finds short names for all that no program looks up.
 *
 * @param kernels Declarations of all kernels, without comments and spare spaces.
 * @param programs Texts of all programs that use them.
 */
export function kernelNames(kernels: readonly string[], programs: readonly string[]): KernelNames {
  const known = programWords(programs);
  const kinds = new Map(
    kernels.flatMap((text) => {
      const [, kind, name] = DECLARED.exec(text) ?? ["", "var", UNIFORM.exec(text)?.[1]];
      return name === undefined ? [] : [[name, kind!] as const];
    }),
  );
  const bound = kernels.flatMap((text) => BOUND.exec(text)?.[1] ?? []);
  const kept = new Set(["main", "Params", ...bound]);
  // A program can name neither functions nor variables, but for what is bound.
  const isFree = ([name, kind]: readonly [string, string]) =>
    !kept.has(name) && (/^(fn|var)/.test(kind) || !known.has(name));
  const free = [...kinds].filter(isFree).map(([name]) => name);
  const words = kernels.flatMap((text) => text.match(WORD) ?? []);
  const mayBeLocal = (name: string) => (kinds.get(name) ?? "fn") === "fn";
  return {
    declared: assign(byUse(free, countTokens(kernels)), shortNames(CAPITALS, words)),
    locals: localNames(kernels, shortNames(LETTERS, [...bound, ...kinds.keys()]), mayBeLocal),
    members: memberNames(kernels),
  };
}

/** A declaration with other names. */
export function rename(declaration: string, names: KernelNames): string {
  const locals = new Set(localsOf(declaration));
  const members = STRUCT.test(declaration) ? new Set(declaration.match(MEMBER)) : new Set();
  const isParams = STRUCT.exec(declaration)?.[1] === "Params";
  return declaration.replace(TOKEN, (token, at: number) => {
    if (token.startsWith(".")) return `.${names.members.get(token.slice(1)) ?? token.slice(1)}`;
    if (members.has(token) && declaration[at + token.length] === ":") {
      return (isParams ? undefined : names.members.get(token)) ?? token;
    }
    const local = locals.has(token) ? names.locals.get(token) : undefined;
    return local ?? names.declared.get(token) ?? token;
  });
}

/** Keys of objects, which name constants, and words of texts, which may be types. */
function programWords(programs: readonly string[]): ReadonlySet<string> {
  const found = new Set<string>();
  const add = (text: string) => {
    for (const word of text.match(WORD) ?? []) found.add(word);
  };
  const visit = (node: unknown): void => {
    if (typeof node !== "object" || node === null) return;
    const { type, key, value } = node as Record<string, unknown>;
    if (type === "Property") add((key as { readonly name?: string }).name ?? "");
    if (type === "Literal" && typeof value === "string") add(value);
    if (type === "TemplateElement") add((value as { readonly raw: string }).raw);
    Object.values(node).forEach(visit);
  };
  for (const program of programs) visit(parseAst(program, { lang: "ts" }));
  return found;
}

/** A function's parameters and variables, but for those whose name it also calls. */
function localsOf(declaration: string): readonly string[] {
  if (!declaration.startsWith("fn ")) return [];
  const names = [...declaration.matchAll(LOCAL)].map(([, own, given]) => own ?? given!);
  const isCalled = (name: string) => new RegExp(`(?<![.\\w])${name}\\(`).test(declaration);
  return [...new Set(names)].filter((name) => !isCalled(name));
}

/** The shortest for what most functions have; the same for two only where no function has both. */
function localNames(
  kernels: readonly string[],
  short: readonly string[],
  mayBeLocal: (name: string) => boolean,
): ReadonlyMap<string, string> {
  const uses = new Map<string, number>();
  const beside = new Map<string, Set<string>>();
  for (const text of kernels) {
    const locals = localsOf(text).filter(mayBeLocal);
    for (const name of locals) {
      uses.set(name, (uses.get(name) ?? 0) + 1);
      beside.set(name, new Set([...(beside.get(name) ?? []), ...locals]));
    }
  }
  const names = new Map<string, string>();
  for (const name of byUse([...uses.keys()], uses)) {
    const taken = new Set([...beside.get(name)!].map((other) => names.get(other)));
    names.set(name, short.find((candidate) => !taken.has(candidate))!);
  }
  return names;
}

/** A member of `Params` keeps its name in all structs: a dot does not say whose member it is. */
function memberNames(kernels: readonly string[]): ReadonlyMap<string, string> {
  const structs = kernels.flatMap((text) => {
    const [whole, name] = STRUCT.exec(text) ?? [];
    return whole === undefined ? [] : [{ name: name!, members: whole.match(MEMBER) ?? [] }];
  });
  const kept = new Set(
    structs.flatMap(({ name, members }) =>
      members.filter((member) => name === "Params" || FOREIGN_MEMBER.test(member)),
    ),
  );
  const own = structs.flatMap(({ members }) => members.filter((member) => !kept.has(member)));
  const counts = countTokens(kernels);
  const uses = new Map([...new Set(own)].map((name) => [name, counts.get(`.${name}`) ?? 0]));
  const short = shortNames([...LETTERS, ...CAPITALS], [...kept]);
  return assign(
    byUse([...uses.keys()], uses),
    short.filter((name) => !FOREIGN_MEMBER.test(name)),
  );
}

/** Names of one letter, then of two. */
function shortNames(first: readonly string[], taken: Iterable<string>): readonly string[] {
  const isTaken = new Set([...taken, ...RESERVED]);
  const second = [...LETTERS, ...CAPITALS];
  const pairs = first.flatMap((one) => second.map((other) => one + other));
  return [...first, ...pairs].filter((name) => !isTaken.has(name));
}

function countTokens(texts: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const token of texts.flatMap((text) => text.match(TOKEN) ?? [])) {
    counts.set(token, (counts.get(token) ?? 0) + 1);
  }
  return counts;
}

/** The most used first; of those used alike, by name. */
function byUse(names: readonly string[], uses: ReadonlyMap<string, number>): readonly string[] {
  const count = (name: string) => uses.get(name) ?? 0;
  return [...names].sort((a, b) => count(b) - count(a) || (a < b ? -1 : 1));
}

const assign = (names: readonly string[], short: readonly string[]) =>
  new Map(names.map((name, i) => [name, short[i]!]));
