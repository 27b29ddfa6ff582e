/**
 * A JSON schema as a tree: its parts with their places, its dialects, and what its references
 * point to.
 *
 * Nothing is ever fetched: a reference leads to a part of it or to the schema of a dialect, or the
 * error names it.
 *
 * @module
 */

import type { JsonUnknown } from "../../constraint.ts";
import { spendEffort } from "../effort.ts";
import { GrammarError } from "../grammar_error.ts";
import { DIALECT_URIS, type Dialect } from "./dialect.ts";
import { inDraft04, withRequiredMembers } from "./draft_03.ts";
import { effectiveSchema } from "./effective_schema.ts";
import { anchorIdOf, decodedFragment, idOf, resolveUri, splitUri } from "./identifiers.ts";
import { escapeToken, isArray, isObject, type JsonObject, type JsonValue } from "./json_value.ts";
import { isAnnotation } from "./keyword_forms.ts";
import { metaSchemaFor } from "./meta_schemas.ts";
import { SchemaWarnings } from "./schema_warnings.ts";

/** Of finding a schema among the values. */
const NODE_EFFORT = 1;

/** Of schemas that are not in the document. */
const NO_ANCHORS = new Map<string, SchemaNode>();
const NO_NAMES = new Set<string>();

/** What a schema without `$id` is relative to. */
const NO_URI = "schema:/";

/** Keywords whose value is a schema. */
const SCHEMA_KEYWORDS = [
  "additionalItems",
  "additionalProperties",
  "contains",
  "contentSchema",
  "else",
  "if",
  "items",
  "not",
  "propertyNames",
  "then",
  "unevaluatedItems",
  "unevaluatedProperties",
] as const;

/** Keywords whose value is a list of schemas. */
const LIST_KEYWORDS = ["allOf", "anyOf", "items", "oneOf", "prefixItems"] as const;

/** Keywords whose value has a schema under every key. */
const MAP_KEYWORDS = [
  "$defs",
  "definitions",
  "dependencies",
  "dependentSchemas",
  "patternProperties",
  "properties",
] as const;

/** A schema with an identifier of its own, or the whole document. */
export interface Resource {
  readonly uri: string;
  readonly root: SchemaNode;
  readonly dialect: Dialect;
  /** Whether the document says its dialect itself. */
  readonly isDeclared: boolean;
  readonly anchors: Map<string, SchemaNode>;
  readonly dynamicAnchors: Set<string>;
}

/** One schema of the document. */
export interface SchemaNode {
  readonly id: number;
  /** Without what says nothing here: unknown keywords and those of other dialects. */
  readonly value: boolean | JsonObject;
  /** As it was written. */
  readonly written: boolean | JsonObject;
  /** Whether every value fits, or none, where that is plain to see. */
  readonly verdict: boolean | undefined;
  /** JSON pointer to it. */
  readonly path: string;
  readonly resource: Resource;
  /** What dynamic references mean in it. */
  readonly scope: DynamicScope;
}

/** The resources that were entered on the way to a schema, as far as dynamic references tell them apart. */
export interface DynamicScope {
  /** The same for equal ones. */
  readonly key: string;
  /** For each dynamic anchor the first resource with it that was entered. */
  readonly anchors: ReadonlyMap<string, Resource>;
}

const NO_SCOPE: DynamicScope = { key: "", anchors: new Map() };

export interface TreeOptions {
  /** Of a document that does not say it. */
  readonly dialect: Dialect;
  readonly unknown: JsonUnknown;
}

export class SchemaTree {
  readonly root: SchemaNode;
  /** What was ignored. */
  readonly warnings = new SchemaWarnings();
  readonly #unknown: JsonUnknown;
  readonly #nodes = new Map<string, SchemaNode>();
  readonly #resources = new Map<string, Resource>();
  /** Schemas in a scope, by its key and theirs. */
  readonly #scoped = new Map<string, SchemaNode>();
  /** Places of references to "#/" that were told of. */
  readonly #slashes = new Set<string>();
  /** Whether dynamic references may mean different schemas. */
  #isDynamic = false;
  #nextId = 0;

  /** @throws {GrammarError} when it is no schema. */
  constructor(schema: JsonValue, { dialect, unknown }: TreeOptions) {
    this.#unknown = unknown;
    const value = asSchema(schema, "");
    const isDeclared = unknown === "refuse";
    const resource = this.#openResource(value, { path: "", dialect, isDeclared, base: NO_URI });
    this.#index(resource.root);
    const anchors = [...this.#resources.values()].flatMap((one) => [...one.dynamicAnchors]);
    this.#isDynamic = new Set(anchors).size < anchors.length;
    this.root = this.#inScope(resource.root, NO_SCOPE);
  }

  /** All schemas that were found, each once. */
  nodes(): Iterable<SchemaNode> {
    return this.#nodes.values();
  }

  /** The part of a schema that the tokens lead to. */
  child(node: SchemaNode, ...tokens: readonly (string | number)[]): SchemaNode {
    let value: JsonValue = node.value;
    for (const token of tokens) value = (value as JsonObject)[token]!;
    const path = node.path + tokens.map((t) => `/${escapeToken(t)}`).join("");
    return this.#inScope(this.#nodeAt(value, path, node), node.scope);
  }

  /** A schema as it is reached from a scope. */
  #inScope(node: SchemaNode, outer: DynamicScope): SchemaNode {
    if (!this.#isDynamic || node.scope !== NO_SCOPE) return node;
    const scope = entered(outer, node.resource);
    if (scope.key === "") return node;
    const key = `${scope.key} ${node.id}`;
    let scoped = this.#scoped.get(key);
    if (scoped === undefined) {
      spendEffort(NODE_EFFORT);
      scoped = { ...node, id: this.#nextId++, scope };
      this.#scoped.set(key, scoped);
    }
    return scoped;
  }

  /** A schema that is not in the document, for what one stands for. Its parts may be. */
  derive(value: JsonObject, from: SchemaNode): SchemaNode {
    const path = `${from.path}#${this.#nextId}`;
    const { uri } = from.resource;
    const options = {
      path,
      dialect: "2020-12",
      isDeclared: true,
      base: uri,
      derived: true,
    } as const;
    return this.#openResource(value, options).root;
  }

  /** A schema that any of the others fits. */
  deriveAnyOf(parts: readonly SchemaNode[]): SchemaNode {
    const node = this.derive({ anyOf: parts.map(({ value }) => value) }, parts[0]!);
    parts.forEach((part, i) => {
      this.#nodes.set(`${node.path}/anyOf/${i}`, part);
    });
    return node;
  }

  /**
   * What a dynamic reference points to: where it leads to a dynamic anchor, the one of that name in
   * the first resource on the way that has it.
   *
   * @throws {GrammarError} when it is not in the document.
   */
  resolveDynamic(node: SchemaNode, keyword: string, reference: string): SchemaNode {
    const target = this.resolve(node, keyword, reference);
    const name = reference.slice(reference.indexOf("#") + 1);
    if (!isObject(target.written) || target.written.$dynamicAnchor !== name) return target;
    const anchor = node.scope.anchors.get(name)?.anchors.get(name);
    return anchor === undefined ? target : this.#inScope(anchor, node.scope);
  }

  /** How many resources there are. */
  get resourceCount(): number {
    return this.#resources.size;
  }

  /**
   * What a reference points to.
   *
   * @throws {GrammarError} when it is neither in the document nor the schema of a dialect.
   */
  resolve(node: SchemaNode, keyword: string, reference: string): SchemaNode {
    const refuse = (state: string): never => {
      throw new GrammarError(`Cannot follow "${keyword}" to "${reference}": ${state}`, {
        path: `${node.path}/${keyword}`,
      });
    };
    const { uri, fragment } = splitUri(reference);
    const address = uri === "" ? node.resource.uri : resolveUri(uri, node.resource.uri);
    const resource =
      uri === "" ? node.resource : address === undefined ? undefined : this.#resources.get(address);
    if (resource === undefined) return refuse("it is not part of the schema");
    const name = decodedFragment(fragment);
    if (name === "") return this.#inScope(resource.root, node.scope);
    const found = name.startsWith("/")
      ? (this.#follow(resource.root, name) ??
        this.#meantRoot(resource, name, `${node.path}/${keyword}`) ??
        refuse("the schema has no such part"))
      : (resource.anchors.get(name) ?? refuse("the schema has no such anchor"));
    return this.#inScope(found, node.scope);
  }

  /** Where "#/" names no part it means the whole, as validators take it. */
  #meantRoot({ root }: Resource, name: string, path: string): SchemaNode | undefined {
    if (name !== "/" || this.#unknown === "refuse") return undefined;
    if (!this.#slashes.has(path)) {
      this.#slashes.add(path);
      this.warnings.add('Ignored the "/" of a reference to "#/": the schema has no part ""', path);
    }
    return root;
  }

  #follow(root: SchemaNode, pointer: string): SchemaNode | undefined {
    let value: JsonValue = root.written;
    let { path } = root;
    let nearest = root;
    for (const raw of pointer.slice(1).split("/")) {
      const token = raw.replaceAll("~1", "/").replaceAll("~0", "~");
      const isIndex = isArray(value) && /^(0|[1-9]\d*)$/.test(token);
      if (!isObject(value) && !isIndex) return undefined;
      const parts = value as JsonObject;
      if (!Object.hasOwn(parts, token)) return undefined;
      value = parts[token]!;
      path += `/${escapeToken(token)}`;
      nearest = this.#nodes.get(path) ?? nearest;
    }
    return this.#nodeAt(value, path, nearest);
  }

  #nodeAt(value: JsonValue, path: string, nearest: SchemaNode): SchemaNode {
    const known = this.#nodes.get(path);
    if (known !== undefined) return known;
    const schema = asSchema(value, path);
    const { uri, dialect, isDeclared } = nearest.resource;
    if (idOf(schema, dialect) !== undefined) {
      return this.#openResource(schema, { path, dialect, isDeclared, base: uri }).root;
    }
    return this.#addNode(schema, path, nearest.resource);
  }

  #addNode(written: boolean | JsonObject, path: string, resource: Resource): SchemaNode {
    spendEffort(NODE_EFFORT);
    const value = isObject(written) ? this.#read(written, path, resource) : written;
    const verdict = verdictOf(value);
    const id = this.#nextId++;
    const node = { id, value, written, verdict, path, resource, scope: NO_SCOPE };
    this.#nodes.set(path, node);
    return node;
  }

  #read(written: JsonObject, path: string, resource: Resource): JsonObject {
    const { warnings } = this;
    const schema =
      resource.dialect === "draft-03"
        ? inDraft04(written, { path, warnings })
        : resource.isDeclared
          ? written
          : withRequiredMembers(written);
    if (this.#unknown === "refuse") return schema;
    return effectiveSchema(schema, { path, reading: resource, warnings });
  }

  #openResource(
    value: boolean | JsonObject,
    {
      path,
      dialect: outer,
      isDeclared,
      base,
      derived = false,
    }: { path: string; dialect: Dialect; isDeclared: boolean; base: string; derived?: boolean },
  ): Resource {
    const declared = this.#dialectOf(value, path);
    const dialect = declared ?? outer;
    const id = derived ? undefined : idOf(value, dialect);
    const uri = id === undefined ? base : resolveUri(splitUri(id).uri, base);
    if (uri === undefined) {
      throw new GrammarError(`Cannot read the identifier "${id}": it is no URI`, { path });
    }
    const resource: { -readonly [K in keyof Resource]: Resource[K] } = {
      uri,
      dialect,
      isDeclared: isDeclared || declared !== undefined,
      anchors: derived ? NO_ANCHORS : new Map(),
      dynamicAnchors: derived ? NO_NAMES : new Set(),
      root: undefined as never,
    };
    resource.root = this.#addNode(value, path, resource);
    if (!derived) this.#resources.set(uri, resource);
    return resource;
  }

  /** Of one that is not known, what it adds to JSON Schema is not known either. */
  #dialectOf(value: boolean | JsonObject, path: string): Dialect | undefined {
    const uri = isObject(value) ? value.$schema : undefined;
    if (uri === undefined) return undefined;
    const dialect =
      typeof uri === "string" ? DIALECT_URIS.get(uri.replace(/#\/?$/, "")) : undefined;
    if (dialect !== undefined) return dialect;
    const place = `${path}/$schema`;
    const shown = JSON.stringify(uri);
    if (typeof uri !== "string" || this.#unknown === "refuse") {
      throw new GrammarError(`Cannot use the dialect ${shown}: it is not known`, { path: place });
    }
    this.warnings.add(`Ignored the dialect ${shown}: it is not known`, place);
    return undefined;
  }

  /** Finds every identifier and anchor in places where schemas stand. */
  #index(root: SchemaNode): void {
    const waiting = [root];
    for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
      const { value } = node;
      if (!isObject(value)) continue;
      this.#addAnchors(node, value);
      if (typeof value.$ref === "string") this.#addMetaSchema(splitUri(value.$ref).uri);
      const add = (...tokens: (string | number)[]): void => {
        let part: JsonValue = value;
        for (const token of tokens) part = (part as JsonObject)[token]!;
        if (isObject(part)) waiting.push(this.child(node, ...tokens));
      };
      for (const keyword of SCHEMA_KEYWORDS) if (Object.hasOwn(value, keyword)) add(keyword);
      for (const keyword of LIST_KEYWORDS) {
        const list = Object.hasOwn(value, keyword) ? value[keyword] : undefined;
        if (isArray(list)) for (const i of list.keys()) add(keyword, i);
      }
      for (const keyword of MAP_KEYWORDS) {
        const map = Object.hasOwn(value, keyword) ? value[keyword] : undefined;
        if (isObject(map)) for (const key of Object.keys(map)) add(keyword, key);
      }
    }
  }

  /** Of the dialect that a reference names, where the document has no schema of this name. */
  #addMetaSchema(uri: string): void {
    if (this.#resources.has(uri)) return;
    const schema = metaSchemaFor(uri);
    if (schema === undefined) return;
    const options = { path: uri, dialect: "2020-12", isDeclared: true, base: uri } as const;
    this.#index(this.#openResource(schema, options).root);
  }

  #addAnchors(node: SchemaNode, value: JsonObject): void {
    const { anchors, dynamicAnchors, dialect } = node.resource;
    const { $anchor, $dynamicAnchor } = value;
    if (typeof $anchor === "string") anchors.set($anchor, node);
    if (typeof $dynamicAnchor === "string") {
      anchors.set($dynamicAnchor, node);
      dynamicAnchors.add($dynamicAnchor);
    }
    const anchor = anchorIdOf(value, dialect);
    if (anchor !== undefined) anchors.set(anchor, node);
  }
}

function entered(scope: DynamicScope, resource: Resource): DynamicScope {
  const more = [...resource.dynamicAnchors].filter((name) => !scope.anchors.has(name));
  if (more.length === 0) return scope;
  const added = more.map((name) => [name, resource] as const);
  const anchors = new Map([...scope.anchors, ...added].sort(([a], [b]) => (a < b ? -1 : 1)));
  const key = JSON.stringify([...anchors].map(([name, { root }]) => [name, root.id]));
  return { key, anchors };
}

function verdictOf(schema: boolean | JsonObject): boolean | undefined {
  if (typeof schema === "boolean") return schema;
  const isSilent = (name: string) => isAnnotation(name) && !name.startsWith("$");
  return Object.keys(schema).every(isSilent) ? true : undefined;
}

function asSchema(value: JsonValue, path: string): boolean | JsonObject {
  if (typeof value === "boolean" || isObject(value)) return value;
  throw new GrammarError("Cannot read the schema: it is neither an object nor a boolean", { path });
}
