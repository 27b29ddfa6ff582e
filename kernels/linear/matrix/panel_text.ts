/**
 * The products of a panel in WGSL, one line each: in loops, compilers keep what a subgroup adds up in
 * memory, as they check each index of an array. On an H200 tiles of 64 by 64 were multiplied 1.66 times
 * as fast this way.
 *
 * @module
 */

export interface PanelShape {
  /** Panels of a subgroup where there are the fewest subgroups. */
  readonly panelsEach: number;
  readonly panelRows: number;
  readonly panelOutputs: number;
  /** Columns that are staged at a time. */
  readonly chunk: number;
  /** Sizes of a product. */
  readonly m: number;
  readonly n: number;
  readonly k: number;
}

/** One product of a panel: row and column of its first number there. */
interface Place {
  readonly name: string;
  readonly row: number;
  readonly output: number;
}

const steps = (end: number, step: number) => Array.from({ length: end / step }, (_, i) => i * step);

/** Of panel `i` of a subgroup, row by row. */
function placesOf(i: number, { panelRows, panelOutputs, m, n }: PanelShape): Place[] {
  return steps(panelRows, m).flatMap((row) =>
    steps(panelOutputs, n).map((output) => ({ name: `p${i}_${row}_${output}`, row, output })),
  );
}

/**
 * `struct PanelProducts`, `multiply_chunk(sums, lanes)`, which adds the products of CHUNK columns, and
 * `store_turn(sums, turn, lanes)`, which leaves the sums of TURN_ROWS rows in `products`: what
 * matrix_panels.wgsl needs.
 */
export function panelText(shape: PanelShape): string {
  const panels = Array.from({ length: shape.panelsEach }, (_, i) => placesOf(i, shape));
  const fields = panels.flat().map(({ name }) => `  ${name}: Product,`);
  return [
    "struct PanelProducts {",
    ...fields,
    "}",
    "fn multiply_chunk(sums: ptr<function, PanelProducts>, lanes: Lanes) {",
    ...panels.flatMap((_, i) => ofPanel(i, productLines(i, shape))),
    "}",
    "fn store_turn(sums: ptr<function, PanelProducts>, turn: u32, lanes: Lanes) {",
    ...panels.flatMap((places, i) => ofPanel(i, places.map(storeLine))),
    "}",
  ].join("\n");
}

/** Lines of panel `i` of each subgroup that has it. */
function ofPanel(i: number, lines: readonly string[]): string[] {
  return [
    "  {",
    `    let panel = subgroup_number(lanes) + ${i}u * subgroup_count(lanes);`,
    "    if panel < PANELS {",
    "      let first_row = panel % ROW_PANELS * PANEL_ROWS;",
    "      let first_output = panel / ROW_PANELS * PANEL_OUTPUTS;",
    ...lines.map((line) => `      ${line}`),
    "    }",
    "  }",
  ];
}

function productLines(i: number, shape: PanelShape): string[] {
  const { panelRows, panelOutputs, chunk, m, n, k } = shape;
  return steps(chunk, k).flatMap((column) => [
    "{",
    ...steps(panelRows, m).map(
      (row) =>
        `  let left_${row} = load_left((first_row + ${row}u) * OPERAND_STRIDE + ${column}u);`,
    ),
    ...steps(panelOutputs, n).flatMap((output) => [
      `  let right_${output} = load_right((first_output + ${output}u) * OPERAND_STRIDE + ${column}u);`,
      ...steps(panelRows, m).map((row) => {
        const sum = `(*sums).p${i}_${row}_${output}`;
        return `  ${sum} = multiply_add(left_${row}, right_${output}, ${sum});`;
      }),
    ]),
    "}",
  ]);
}

function storeLine({ name, row, output }: Place): string {
  const to = `(first_row + ${row}u) % TURN_ROWS * PRODUCT_STRIDE + first_output + ${output}u`;
  return `if (first_row + ${row}u) / TURN_ROWS == turn { store_product(${to}, (*sums).${name}); }`;
}
