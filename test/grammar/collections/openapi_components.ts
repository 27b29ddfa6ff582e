/** Components of OpenAPI 3.1 documents: a shop, payments, a tree of comments. */
import type { CollectedSchema } from "./collection.ts";

const money = {
  type: "object",
  required: ["amount", "currency"],
  properties: {
    amount: { type: "integer", format: "int64", description: "In the smallest unit." },
    currency: { type: "string", pattern: "^[A-Z]{3}$", example: "EUR" },
  },
  additionalProperties: false,
  xml: { name: "money" },
};

const schemas = {
  Money: money,
  Address: {
    type: "object",
    required: ["street", "city", "country"],
    properties: {
      street: { type: "string", minLength: 1, maxLength: 120 },
      city: { type: "string" },
      postalCode: { type: ["string", "null"], "x-mask": "#####" },
      country: { type: "string", enum: ["AT", "DE", "CH", "FR"] },
    },
  },
  Customer: {
    type: "object",
    required: ["id", "email"],
    properties: {
      id: { type: "string", format: "uuid", readOnly: true },
      email: { type: "string", format: "email" },
      password: { type: "string", format: "password", writeOnly: true },
      addresses: { type: "array", items: { $ref: "#/components/schemas/Address" }, maxItems: 5 },
      createdAt: { type: "string", format: "date-time" },
      tags: { type: "array", items: { type: "string" }, uniqueItems: true },
    },
  },
  Card: {
    type: "object",
    required: ["kind", "number"],
    properties: {
      kind: { const: "card" },
      number: { type: "string", pattern: "^[0-9]{12,19}$" },
      expires: { type: "string", pattern: "^(0[1-9]|1[0-2])/[0-9]{2}$" },
    },
  },
  Transfer: {
    type: "object",
    required: ["kind", "iban"],
    properties: {
      kind: { const: "transfer" },
      iban: { type: "string", pattern: "^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$" },
    },
  },
  Payment: {
    oneOf: [{ $ref: "#/components/schemas/Card" }, { $ref: "#/components/schemas/Transfer" }],
    discriminator: { propertyName: "kind", mapping: { card: "#/components/schemas/Card" } },
  },
  Order: {
    allOf: [
      {
        type: "object",
        required: ["id", "lines"],
        properties: {
          id: { type: "integer", format: "int32", minimum: 1 },
          lines: {
            type: "array",
            minItems: 1,
            items: {
              type: "object",
              required: ["sku", "quantity"],
              properties: {
                sku: { type: "string" },
                quantity: { type: "integer", format: "uint8", minimum: 1 },
                price: { $ref: "#/components/schemas/Money" },
              },
              additionalProperties: false,
            },
          },
          status: { type: "string", enum: ["open", "paid", "sent"], default: "open" },
        },
      },
      { type: "object", properties: { payment: { $ref: "#/components/schemas/Payment" } } },
    ],
    externalDocs: { url: "https://example.org/orders" },
  },
  Comment: {
    type: "object",
    required: ["text"],
    properties: {
      text: { type: "string" },
      likes: { type: "integer", format: "int32", nullable: true },
      replies: { type: "array", items: { $ref: "#/components/schemas/Comment" } },
    },
    additionalProperties: false,
  },
  Labels: {
    type: "object",
    propertyNames: { pattern: "^[a-z][a-z0-9-]*$" },
    additionalProperties: { type: "string", maxLength: 63 },
    minProperties: 1,
    maxProperties: 4,
  },
  File: {
    type: "object",
    required: ["name", "content"],
    properties: {
      name: { type: "string", pattern: "^[^/]+$" },
      content: { type: "string", format: "byte", contentEncoding: "base64" },
      size: { type: "number", format: "double", exclusiveMinimum: 0 },
    },
  },
  Problem: {
    type: "object",
    properties: {
      type: { type: "string", format: "uri-reference", default: "about:blank" },
      status: { type: "integer", minimum: 100, maximum: 599 },
      detail: { type: "string" },
    },
    unevaluatedProperties: false,
  },
};

const of = (name: keyof typeof schemas, valid: unknown[], invalid: unknown[]): CollectedSchema => ({
  name: `openapi ${name}`,
  schema: { $ref: `#/components/schemas/${name}`, components: { schemas } },
  valid,
  invalid,
});

const id = "123e4567-e89b-12d3-a456-426614174000";

export const OPENAPI_COMPONENTS: readonly CollectedSchema[] = [
  of(
    "Money",
    [
      { amount: 100, currency: "EUR" },
      { amount: -5, currency: "USD" },
    ],
    [{ amount: 1.5, currency: "EUR" }, { amount: 1 }, { amount: 1, currency: "eur" }],
  ),
  of(
    "Address",
    [
      { street: "Ring 1", city: "Wien", country: "AT" },
      { street: "a", city: "", postalCode: null, country: "DE", note: { any: [1] } },
    ],
    [
      { street: "", city: "x", country: "AT" },
      { street: "a", city: "b", country: "US" },
    ],
  ),
  of(
    "Customer",
    [
      { id, email: "a@b.org" },
      { id, email: "a@b.org", createdAt: "2024-02-29T10:00:00Z", tags: ["x", "y", "x y"] },
      { id, email: "a@b.org", tags: [] },
    ],
    [
      { id, email: "a" },
      { id: "1", email: "a@b.org" },
      { id, email: "a@b.org", tags: ["x", "y", "x"] },
      { id, email: "a@b.org", createdAt: "2023-02-29T10:00:00Z" },
    ],
  ),
  of(
    "Payment",
    [
      { kind: "card", number: "4111111111111111", expires: "09/27" },
      { kind: "transfer", iban: "AT611904300234573201" },
    ],
    [{ kind: "card", iban: "AT611904300234573201" }, { kind: "cash" }, {}],
  ),
  of(
    "Order",
    [
      { id: 7, lines: [{ sku: "a", quantity: 2 }] },
      {
        id: 7,
        lines: [{ sku: "a", quantity: 255, price: { amount: 1, currency: "EUR" } }],
        status: "paid",
        payment: { kind: "card", number: "411111111111" },
      },
    ],
    [
      { id: 0, lines: [{ sku: "a", quantity: 2 }] },
      { id: 1, lines: [] },
      { id: 1, lines: [{ sku: "a", quantity: 256 }] },
      { id: 1, lines: [{ sku: "a", quantity: 1 }], payment: { kind: "cash" } },
    ],
  ),
  of(
    "Comment",
    [{ text: "a" }, { text: "a", likes: 3, replies: [{ text: "b", replies: [{ text: "c" }] }] }],
    [{ replies: [] }, { text: "a", replies: [{}] }, { text: "a", author: 1 }],
  ),
  of(
    "Labels",
    [{ a: "1" }, { "app-name": "x", tier: "db" }],
    [{}, { A: "1" }, { a: 1 }, { a: "", b: "", c: "", d: "", e: "" }],
  ),
  of(
    "File",
    [
      { name: "a.txt", content: "QUI=" },
      { name: "a", content: "", size: 0.5 },
    ],
    [
      { name: "a/b", content: "" },
      { name: "a", content: "QUI" },
      { name: "a", content: "", size: 0 },
    ],
  ),
  of(
    "Problem",
    [{}, { type: "/oops", status: 404, detail: "x" }],
    [{ status: 99 }, { other: 1 }, { type: "a b" }],
  ),
];
