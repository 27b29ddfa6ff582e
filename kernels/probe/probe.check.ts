import { defineCheck } from "../check.ts";
import { probe } from "./probe.ts";
import { isNanCode, probeInputs, probeReference } from "./reference.ts";

export default defineCheck({
  name: "probe/probe",
  cases: [{}],
  tunings: [{ bits: 0 }, { bits: 1 }],
  tolerance: 0,
  bytes: () => 8192,
  flops: () => 0,
  mutants: [
    { name: "signs are lost", replace: "| (word & 0x80008000u)", with: "" },
    {
      name: "signs are lost bit by bit",
      replace: "(codes & vec4u(0x80u))",
      with: "vec4u(0u)",
      tuning: 1,
    },
    {
      name: "subnormals are lost bit by bit",
      replace: "magnitude < vec4u(8u)",
      with: "magnitude < vec4u(0u)",
      tuning: 1,
    },
    {
      name: "the scale of the first row",
      replace: "scale_words(0u, row)",
      with: "scale_words(0u, vec4u(0u))",
    },
    { name: "the tree stops early", replace: "half > 0u", with: "half > 1u" },
    {
      name: "an invocation does not count",
      replace: "atomicAdd(&counted, u32(product))",
      with: "atomicMax(&counted, u32(product))",
    },
  ],

  inputs: () => {
    const inputs = probeInputs();
    // What becomes of a NaN code does not matter: 0 in its place.
    inputs.codes[31] = inputs.codes[31]! & 0x00ffffff;
    inputs.codes[63] = inputs.codes[63]! & 0x00ffffff;
    return inputs;
  },

  reference: () => {
    const expected = probeReference(probeInputs());
    return { ...expected, decoded: expected.decoded.map((value, i) => (isNanCode(i) ? 0 : value)) };
  },

  bind(recorder, _, tensors, { bits }) {
    return probe(recorder, {
      codes: tensors.codes!,
      scales: tensors.scales!,
      halves: tensors.halves!,
      left: tensors.left!,
      right: tensors.right!,
      decoded: tensors.decoded!,
      unpacked: tensors.unpacked!,
      sums: tensors.sums!,
      fp8Decode: bits === 1 ? "bits" : "half",
    });
  },
});
