// What a block of the model adds to the residual stream. Needs the bindings `addend` and
// `slot_weights`, `params.stride`, `params.slots` and `params.addend_form`. The form is no constant:
// to compile a pipeline for each would cost more than to ask.

const ADDEND_NONE = 0u;
const ADDEND_ROW = 1u;
const ADDEND_COMBINE = 2u;

// Column `c` of what is added to row `row`.
fn addend_at(row: u32, c: u32) -> f32 {
  if params.addend_form == ADDEND_ROW { return addend[row * params.stride + c]; }
  var sum = 0.0;
  if params.addend_form == ADDEND_COMBINE {
    let first = row * params.slots;
    for (var slot = 0u; slot < params.slots; slot++) {
      sum = fma(slot_weights[first + slot], addend[(first + slot) * params.stride + c], sum);
    }
  }
  return sum;
}
