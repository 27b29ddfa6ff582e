/**
 * Everything that only a GPU can answer, in one run: the rates that the kernels reach at the shapes
 * of large models beside what the adapter gives, forms of a kernel beside each other, what launches
 * and compiling cost, and a whole model. Every value that is timed is checked first.
 *
 * Sizes, and where tables are saved: gpu_bench.ts. One section alone: `-t "one row"`.
 *
 * @module
 */
import "./gpu/subgroup_matrices.ts";
import { gqaSection } from "./gpu/gpu_gqa.ts";
import { manyRowsSection, oneRowSection, sharesSection } from "./gpu/gpu_linear.ts";
import { ratesSection } from "./gpu/gpu_machine.ts";
import { mlaSections } from "./gpu/gpu_mla.ts";
import { modelSection } from "./gpu/gpu_model.ts";
import { moeSection } from "./gpu/gpu_moe.ts";
import { samplingSection } from "./gpu/gpu_sampling.ts";

ratesSection();
oneRowSection();
manyRowsSection();
sharesSection();
mlaSections();
gqaSection();
moeSection();
samplingSection();
modelSection();
