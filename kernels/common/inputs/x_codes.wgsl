// What a linear kernel multiplies: rows of int8 codes with their scales, as norm/quantize_codes
// writes them. Sixteen codes are a vector of the binding `x`. Needs group_sums_codes.wgsl.

alias XVector = vec4u;
