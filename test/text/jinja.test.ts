import { describe, expect, test } from "vitest";
import { JinjaTemplate, TemplateRefusal } from "../../src/text/jinja.ts";

const NOW = new Date(2025, 2, 4, 15, 6, 7);

function render(source: string, variables: object = {}): string {
  return new JinjaTemplate(source).render({ ...variables }, NOW);
}

describe("JinjaTemplate", () => {
  test("variables are the names that it uses, not those of fields and arguments", () => {
    const source =
      "{% set a = b.c or d['e'] or f[g] %}{{ h | tojson(indent=i) }}{{ {j: k, 'l': m} }}" +
      "{% for n in o %}{% if p is not defined %}q{% endif %}{% endfor %}";
    const { variables } = new JinjaTemplate(source);
    for (const name of "abdfghijkmnop") expect(variables).toContain(name);
    for (const name of ["c", "e", "indent", "l", "q"]) expect(variables).not.toContain(name);
  });

  test.each([
    ["%Y-%m-%d", "2025-03-04"],
    ["%d %b %Y", "04 Mar 2025"],
    ["%A, %B %-d", "Tuesday, March 4"],
    ["%H:%M:%S %I %p %y %a", "15:06:07 03 PM 25 Tue"],
    ["%F %T 100%% %Q", "2025-03-04 15:06:07 100% %Q"],
  ])("strftime_now prints %s of the given clock in English", (format, text) => {
    expect(render(`{{ strftime_now(${JSON.stringify(format)}) }}`)).toBe(text);
  });

  test("raise_exception is told apart from a template that fails", () => {
    expect(() => render("{{ raise_exception('no such role') }}")).toThrow(TemplateRefusal);
    expect(() => render("{{ raise_exception('no such role') }}")).toThrow("no such role");
    expect(() => render("{{ 1 | nothing }}")).not.toThrow(TemplateRefusal);
  });

  test.each([
    ["{% for i in [1,2,3] %}a{{ i }}{% if i == 2 %}{% break %}{% endif %}b{% endfor %}.", "a1ba2."],
    [
      "{% for i in [1,2,3] %}a{{ i }}{% if i == 2 %}!{% continue %}{% endif %}b{% endfor %}.",
      "a1ba2!a3b.",
    ],
    [
      "{% for i in [1,2] %}{% for j in [1,2] %}{{ i }}{{ j }}{% break %}{% endfor %};{% endfor %}",
      "11;21;",
    ],
    ["{% for i in [1,2] %}x{% break %}{% else %}none{% endfor %}", "x"],
    ["{% for i in [] %}x{% else %}none{% endfor %}", "none"],
    [
      "{% for i in range(2, -1, -1) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
      "20",
    ],
  ])("break and continue keep what was printed before: %s", (source, text) => {
    expect(render(source)).toBe(text);
  });

  test.each([
    [
      "{{ range(3) | list }} {{ range(1, 7, 3) | list }} {{ range(2, 0) | list }}",
      "[0, 1, 2] [1, 4] []",
    ],
    ["{{ None is none }} {{ True }} {{ False is false }}", "true true true"],
    ["{{ v | tojson(indent=2) }}", '{\n  "a": [\n    1\n  ],\n  "é": {}\n}'],
    ["{{ v | tojson(ensure_ascii=False) }}", '{"a": [1], "é": {}}'],
    [
      "{{ v is mapping }} {{ v.a is mapping }} {{ v.a is iterable }} {{ 'x' is string }}",
      "true false true true",
    ],
    ["{{ 'abc'[::-1] }} {{ 'abc'[1:] }} {{ [1,2,3][-2:] }} {{ [1,2,3][:1] }}", "cba bc [2, 3] [1]"],
    [
      "{{ ' a '.strip() }} {{ 'a,b'.split(',')[-1] }} {{ '\nx'.lstrip('\n') }} {{ 'ab'.startswith('a') }}",
      "a b x true",
    ],
    [
      "{% set ns = namespace(n=0) %}{% for i in [1,2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
      "3",
    ],
    ["{% macro f(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ f(1) }} {{ f(1, b=3) }}", "1-2 1-3"],
    [
      "{% for k, x in v.items() %}{{ k }}{{ loop.index }}{{ ',' if not loop.last }}{% endfor %}",
      "a1,é2",
    ],
    ["{% for k, x in v | items if k != 'a' %}{{ k }}{% endfor %}", "é"],
    ["{{ v.get('b', 'none') }} {{ v.b is defined }} {{ 'a' in v }}", "none false true"],
  ])("templates can count on %s", (source, text) => {
    expect(render(source, { v: { a: [1], é: {} } })).toBe(text);
  });
});
