/**
 * What attention/gqa_write_decode does in one launch, by the launches that it stands for.
 *
 * @module
 */
import { exchangeOptions } from "../../../kernels/attention/check_tuning.ts";
import { gqaDecode } from "../../../kernels/attention/gqa/gqa_decode.ts";
import { gqaOptions, gqaRows, gqaSplits } from "../../../kernels/attention/gqa/gqa_reference.ts";
import check from "../../../kernels/attention/gqa/gqa_write_decode.check.ts";
import { vectorOptions } from "../../../kernels/cache/gqa_vectors_reference.ts";
import { gqaWrite } from "../../../kernels/cache/gqa_write.ts";
import { blank } from "./mla.ts";

/** The same cases and answers. */
export const gqaApart: typeof check = {
  ...check,
  bind(recorder, shape, tensors, tuning) {
    const attention = gqaOptions(shape, tensors);
    const { queryStride } = attention;
    const query = { query: blank(gqaRows(shape) * queryStride), queryStride };
    const write = gqaWrite(recorder, { ...vectorOptions(shape, tensors), ...query });
    const decode = gqaDecode(recorder, {
      ...{ ...attention, ...query, partials: tensors.partials! },
      ...exchangeOptions(recorder.device, tuning),
    });
    return () => {
      write(gqaRows(shape));
      decode(gqaRows(shape), gqaSplits(shape));
    };
  },
};
