/** Resources of health records, in the manner of FHIR: choices of types, extensions, recursion. */
import type { CollectedSchema } from "./collection.ts";

const definitions = {
  id: { pattern: "^[A-Za-z0-9\\-\\.]{1,64}$", type: "string" },
  code: { pattern: "^[^\\s]+(\\s[^\\s]+)*$", type: "string" },
  dateTime: {
    pattern:
      "^([0-9]([0-9]([0-9][1-9]|[1-9]0)|[1-9]00)|[1-9]000)(-(0[1-9]|1[0-2])(-(0[1-9]|[1-2][0-9]|3[0-1])(T([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\\.[0-9]+)?(Z|(\\+|-)((0[0-9]|1[0-3]):[0-5][0-9]|14:00)))?)?)?$",
    type: "string",
  },
  positiveInt: { pattern: "^[1-9][0-9]*$", type: "number" },
  Element: {
    properties: {
      id: { $ref: "#/definitions/id" },
      extension: { items: { $ref: "#/definitions/Extension" }, type: "array" },
    },
    additionalProperties: false,
  },
  Extension: {
    properties: {
      url: { type: "string" },
      valueString: { pattern: "^[ \\r\\n\\t\\S]+$", type: "string" },
      extension: { items: { $ref: "#/definitions/Extension" }, type: "array" },
    },
    additionalProperties: false,
  },
  Coding: {
    properties: {
      system: { type: "string" },
      code: { $ref: "#/definitions/code" },
      _code: { $ref: "#/definitions/Element" },
      display: { type: "string" },
    },
    additionalProperties: false,
  },
  CodeableConcept: {
    properties: {
      coding: { items: { $ref: "#/definitions/Coding" }, type: "array" },
      text: { type: "string" },
    },
    additionalProperties: false,
  },
  Observation: {
    properties: {
      resourceType: { const: "Observation" },
      id: { $ref: "#/definitions/id" },
      status: { enum: ["registered", "preliminary", "final"] },
      code: { $ref: "#/definitions/CodeableConcept" },
      effectiveDateTime: { $ref: "#/definitions/dateTime" },
      valueInteger: { type: "number" },
      component: { items: { $ref: "#/definitions/CodeableConcept" }, type: "array" },
    },
    additionalProperties: false,
    required: ["resourceType", "code"],
  },
  Patient: {
    properties: {
      resourceType: { const: "Patient" },
      id: { $ref: "#/definitions/id" },
      contained: { items: { $ref: "#/definitions/ResourceList" }, type: "array" },
      active: { type: "boolean" },
      gender: { enum: ["male", "female", "other", "unknown"] },
      birthDate: { $ref: "#/definitions/dateTime" },
      multipleBirthInteger: { $ref: "#/definitions/positiveInt" },
    },
    additionalProperties: false,
    required: ["resourceType"],
  },
  ResourceList: {
    oneOf: [{ $ref: "#/definitions/Observation" }, { $ref: "#/definitions/Patient" }],
  },
};

export const HEALTH_RECORDS: readonly CollectedSchema[] = [
  {
    name: "health record",
    schema: {
      $schema: "http://json-schema.org/draft-06/schema#",
      id: "http://example.org/records",
      description: "Any resource.",
      discriminator: { propertyName: "resourceType" },
      oneOf: [{ $ref: "#/definitions/Patient" }, { $ref: "#/definitions/Observation" }],
      definitions,
    },
    valid: [
      { resourceType: "Patient" },
      {
        resourceType: "Patient",
        id: "a-1",
        contained: [{ resourceType: "Observation", code: {} }],
        active: true,
        gender: "other",
        birthDate: "2001-04",
        multipleBirthInteger: 2,
      },
      {
        resourceType: "Observation",
        status: "final",
        code: {
          coding: [{ system: "s", code: "a b", _code: { id: "x", extension: [{ url: "u" }] } }],
        },
        effectiveDateTime: "2024-01-01T10:00:00+01:00",
      },
    ],
    invalid: [
      {},
      { resourceType: "Observation" },
      { resourceType: "Patient", id: "a b" },
      { resourceType: "Patient", gender: "x" },
      { resourceType: "Patient", contained: [{}] },
      { resourceType: "Observation", code: { coding: [{ code: " a" }] } },
    ],
  },
];
