/**
 * Unions of many kinds, events that join schemas, many settings and long lists: where joins
 * and opposites of schemas add up.
 */
import type { CollectedSchema } from "./collection.ts";

const extension = { description: "Any value may stand here.", additionalProperties: true };

/** A closed object of a kind, which may have extensions besides. */
function kind(
  type: string,
  properties: Readonly<Record<string, unknown>>,
  required: string[] = [],
) {
  return {
    type: "object",
    required: ["type", ...required],
    properties: {
      description: { type: "string" },
      type: { type: "string", enum: [type] },
      ...properties,
    },
    patternProperties: { "^x-[\\w.\\-]+$": { $ref: "#/definitions/extension" } },
    additionalProperties: false,
  };
}

const place = { type: "string", enum: ["header", "query", "cookie"] };

const SECURITY = {
  $schema: "http://json-schema.org/draft-07/schema#",
  oneOf: [{ $ref: "#/definitions/reference" }, { $ref: "#/definitions/scheme" }],
  definitions: {
    extension,
    reference: {
      type: "object",
      required: ["$ref"],
      properties: { $ref: { type: "string", format: "uri-reference" } },
    },
    scheme: {
      oneOf: [
        kind("userPassword", {}),
        kind("apiKey", { in: { enum: ["user", "password"] } }, ["in"]),
        kind("X509", {}),
        kind("symmetricEncryption", {}),
        kind("asymmetricEncryption", {}),
        { $ref: "#/definitions/http" },
        kind("openIdConnect", { openIdConnectUrl: { type: "string", format: "uri" } }, [
          "openIdConnectUrl",
        ]),
        {
          oneOf: [
            kind("plain", {}),
            kind("gssapi", {}),
            kind("scram", { rounds: { type: "integer" } }),
          ],
        },
        { type: "object", required: ["type", "flows"], properties: { type: { const: "oauth2" } } },
      ],
    },
    http: {
      oneOf: [
        {
          ...kind("http", { scheme: { type: "string" } }, ["scheme"]),
          not: { type: "object", properties: { scheme: { enum: ["bearer"] } } },
        },
        kind("http", { scheme: { enum: ["bearer"] }, bearerFormat: { type: "string" } }, [
          "scheme",
        ]),
        kind("httpApiKey", { name: { type: "string" }, in: place }, ["name", "in"]),
      ],
    },
  },
};

const nullable = (schema: object) => ({ anyOf: [schema, { type: "null" }] });
const time = { type: "string", format: "date-time" };
const user = {
  type: "object",
  required: ["login", "id"],
  properties: {
    login: { type: "string" },
    id: { type: "integer" },
    url: { type: "string", format: "uri" },
  },
  additionalProperties: false,
};

const EVENT = {
  definitions: {
    user,
    alert: {
      type: "object",
      required: ["number", "resolution", "resolved_at", "resolved_by"],
      properties: {
        number: { type: "integer" },
        resolution: { type: ["string", "null"], enum: ["revoked", "wont_fix", null] },
        resolved_at: nullable(time),
        resolved_by: nullable({ $ref: "#/definitions/user" }),
      },
    },
  },
  type: "object",
  required: ["action", "alert"],
  properties: {
    action: { type: "string", enum: ["revoked", "created"] },
    alert: { $ref: "#/definitions/alert" },
  },
  if: { properties: { action: { const: "revoked" } } },
  // biome-ignore lint/suspicious/noThenProperty: the name of a keyword of JSON Schema
  then: {
    properties: {
      alert: {
        allOf: [
          { $ref: "#/definitions/alert" },
          {
            properties: {
              resolution: { enum: ["revoked"] },
              resolved_at: time,
              resolved_by: { $ref: "#/definitions/user" },
            },
          },
        ],
      },
    },
  },
};

const BUILDER = {
  type: "object",
  properties: {
    polyfills: {
      oneOf: [
        { type: "array", uniqueItems: true, items: { type: "string", uniqueItems: true } },
        { type: "string" },
      ],
    },
    extractVersion: { type: "string", format: "regex" },
    matchers: { type: "array", items: { type: "string", format: "regex" }, minItems: 1 },
  },
  additionalProperties: false,
};

const words = (count: number, prefix: string) =>
  Array.from({ length: count }, (_, i) => `${prefix}${i}`);

const SETTINGS = {
  type: "object",
  properties: Object.fromEntries(
    words(120, "option.").map((name, i) => [
      name,
      [
        { type: "boolean", default: true, markdownDescription: `Controls ${name}.` },
        { type: "integer", minimum: i, maximum: 1000 + i },
        { type: "string", enum: words(6, `choice${i}.`), enumDescriptions: words(6, "It is ") },
        {
          anyOf: [
            { type: "null" },
            { type: "array", items: { type: "string" }, uniqueItems: true },
          ],
        },
      ][i % 4]!,
    ]),
  ),
  required: words(12, "option."),
};
const settings = Object.fromEntries(
  words(12, "option.").map((name, i) => [name, [true, i, `choice${i}.0`, ["a", "b"]][i % 4]]),
);

const SHAPES = {
  oneOf: words(60, "shape").map((shape) => ({
    type: "object",
    properties: {
      shape: { const: shape },
      ...Object.fromEntries(
        words(8, `${shape}.side`).map((side) => [side, { type: "number", minimum: 0 }]),
      ),
    },
    required: ["shape", `${shape}.side0`],
    additionalProperties: false,
  })),
};

const ICONS = {
  type: "object",
  properties: { icon: { enum: words(20_000, "icon-") } },
  required: ["icon"],
};

export const KINDS_AND_EVENTS: readonly CollectedSchema[] = [
  {
    name: "security schemes of many kinds",
    schema: SECURITY,
    valid: [
      { type: "X509" },
      { type: "http", scheme: "basic" },
      { type: "http", scheme: "bearer", bearerFormat: "JWT", "x-a.b": [1] },
      { in: "query", name: "k", type: "httpApiKey" },
      { type: "scram", rounds: 3 },
      { $ref: "#/a" },
      { type: "oauth2", flows: {}, more: 1 },
      { type: "apiKey", in: "user", description: "d" },
    ],
    invalid: [
      { type: "X509", in: "user" },
      { type: "http" },
      { type: "http", scheme: "basic", bearerFormat: "JWT" },
      { type: "scram", rounds: "3" },
      { type: "oauth2" },
      { type: "other" },
      { type: "oauth2", flows: {}, $ref: "#/a" },
      { $ref: 1 },
      {},
    ],
  },
  {
    name: "event of an alert",
    schema: EVENT,
    valid: [
      {
        action: "created",
        alert: { number: 1, resolution: null, resolved_at: null, resolved_by: null },
      },
      {
        action: "revoked",
        alert: {
          number: 1,
          resolution: "revoked",
          resolved_at: "2024-01-01T00:00:00Z",
          resolved_by: { id: 1, login: "a" },
        },
      },
    ],
    invalid: [
      {
        action: "revoked",
        alert: { number: 1, resolution: null, resolved_at: null, resolved_by: null },
      },
      {
        action: "created",
        alert: { number: 1, resolution: "x", resolved_at: null, resolved_by: null },
      },
      {
        action: "created",
        alert: { number: 1, resolution: null, resolved_at: "now", resolved_by: null },
      },
      { action: "created" },
    ],
  },
  {
    name: "options of a builder",
    schema: BUILDER,
    valid: [
      { polyfills: ["a", "b"] },
      { polyfills: "a", extractVersion: "^v(?<version>\\d+(\\.\\d+)*)$" },
      { matchers: ["(?i:a)|b{2,3}".replace("?i:", "?:"), "[\\w\\-]+@\\p{L}"] },
    ],
    invalid: [
      { polyfills: ["a", "a"] },
      { extractVersion: "(a" },
      { matchers: ["a", "[b-a]"] },
      { matchers: [] },
    ],
  },
  {
    name: "hundreds of settings",
    schema: SETTINGS,
    valid: [settings, { ...settings, "other.option": {}, "option.103": null }],
    invalid: [
      { ...settings, "option.0": 1 },
      { ...settings, "option.3": ["a", "a"] },
      Object.fromEntries(Object.entries(settings).slice(1)),
      {},
    ],
  },
  {
    name: "sixty shapes",
    schema: SHAPES,
    valid: [
      { shape: "shape7", "shape7.side0": 1 },
      { "shape59.side0": 0, "shape59.side7": 2, shape: "shape59" },
    ],
    invalid: [{ shape: "shape7", "shape8.side0": 1 }, { shape: "shape7" }, { "shape7.side0": 1 }],
  },
  {
    name: "twenty thousand icons",
    schema: ICONS,
    valid: [{ icon: "icon-0" }, { icon: "icon-19999", size: 3 }],
    invalid: [{ icon: "icon-" }, { icon: "icon-20000" }, {}],
  },
];
