/**
 * Changes to a chat template: broken syntax, deep nesting, long texts. Loops without an end are not
 * among them: no parser can tell.
 *
 * @module
 */
import type { Random } from "./random.ts";

const PIECES = [
  ...["{{", "}}", "{%", "%}", "{#", "#}", "'", '"', "\\", "|", "(", ")", "[", "{% endif %}", "\0"],
  ...["{% endfor %}", "{% break %}", "{% generation %}", "{{ 1/0 }}", "{{ none.a.b }}", "\ud800"],
  ...[
    "{{ messages[9]['role'] }}",
    "{{ ''[0] }}",
    "{{ {}['__proto__'] }}",
    "{{ x() }}",
    "{% set %}",
  ],
  ...[
    "{{ 'a' * 3 }}",
    "{{ messages.constructor }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
  ],
];

/** Repeats that a parser or a renderer calls itself for, or that a pattern goes back over. */
const REPEATED: readonly (readonly [before: string, each: string, after: string, end: string])[] = [
  ["{{ ", "(", "1", ") }}"],
  ["{{ ", "not ", "1", " }}"],
  ["{{ ", "[", "1", "] }}"],
  ["{{ 1", " + 1", "", " }}"],
  ["{{ 'a'", " ~ 'b'", "", " }}"],
  ["{{ x", "['a']", "", " }}"],
  ["{{ 'a'", "|trim", "", " }}"],
  ["", "{% if true %}", "", ""],
  ["{% if true %}", "{% elif true %}", "", "{% endif %}"],
  ["", " ", "", ""],
  ["", "\n", "", ""],
  ["{%", " ", "", "%}"],
  ["", "{{ 1 }}", "", ""],
];
const TIMES = [3, 40, 1500, 1500, 6000];

export function mutateTemplate(source: string, random: Random): string {
  const at = random.below(source.length + 1);
  switch (random.below(4)) {
    case 0:
      return source.slice(0, at) + random.pick(PIECES) + source.slice(at);
    case 1:
      return source.slice(0, at) + source.slice(at + random.pick([1, 1, 2, 5, 40]));
    case 2:
      return source.slice(0, at);
    default: {
      const [before, each, middle, end] = random.pick(REPEATED);
      const times = random.pick(TIMES);
      const closing = end.startsWith(")") || end.startsWith("]") ? end[0]!.repeat(times - 1) : "";
      const put = before + each.repeat(times) + middle + closing + end;
      return source.slice(0, at) + put + source.slice(at);
    }
  }
}
