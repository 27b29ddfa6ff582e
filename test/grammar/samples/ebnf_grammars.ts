/**
 * Small EBNF grammars as requests bring them, each with a regular expression of the same language.
 *
 * @module
 */

export interface SampleEbnf {
  readonly name: string;
  readonly ebnf: string;
  readonly regex: string;
  readonly yes: readonly string[];
  readonly no: readonly string[];
}

export const SAMPLE_EBNF: readonly SampleEbnf[] = [
  {
    name: "email",
    ebnf: `
      root   ::= user "@" domain
      user   ::= [a-zA-Z0-9._%+-]+
      domain ::= label ("." label)* "." top
      label  ::= [a-zA-Z0-9-]+
      top    ::= [a-zA-Z]{2,}`,
    regex: String.raw`[\w.%+-]+@([a-zA-Z0-9-]+\.)+[a-zA-Z]{2,}`,
    yes: ["a.b+c@mail.example.org", "x@y.zz"],
    no: ["a@b", "@b.cc", "a@b.c", "a b@c.dd"],
  },
  {
    name: "greeting",
    ebnf: `
      # The alternatives go on where a line ends with a bar.
      root ::= hello ", " who mark
      hello ::= "Hello" |
                "Hi" |
                'Good ' ("morning" | "evening")
      who ::= "world" | [A-Z] [a-z]*
      mark ::= "!" | "."?`,
    regex: "(Hello|Hi|Good (morning|evening)), (world|[A-Z][a-z]*)[!.]?",
    yes: ["Hello, world!", "Good evening, Ada", "Hi, B."],
    no: ["Hello world!", "Good, world", "Hi, ada", "Hi, Ada!."],
  },
  {
    name: "number",
    ebnf: `
      root ::= "-"? whole fraction? exponent?
      whole
        ::= "0"
        | [1-9] [0-9]*
      fraction ::= "." [0-9]+
      exponent ::= [eE] [-+]? [0-9]+`,
    regex: String.raw`-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?`,
    yes: ["0", "-12.50", "6.02e+23", "1E9"],
    no: ["", "-", "01", "1.", ".5", "1e", "+1"],
  },
  {
    name: "phone number",
    ebnf: `
      root ::= country? area digit{3} "-" digit{4}
      country ::= "+" [1-9] digit{0,2} " "
      area ::= "(" digit{3} ") " | digit{3} "-"
      digit ::= [0-9]`,
    regex: String.raw`(\+[1-9]\d{0,2} )?(\(\d{3}\) |\d{3}-)\d{3}-\d{4}`,
    yes: ["(555) 010-9999", "+49 555-010-9999"],
    no: ["555 010-9999", "+0 555-010-9999", "(555)010-9999", "555-010-99999"],
  },
  {
    name: "date",
    ebnf: `
      root  ::= year "-" month "-" day
      year  ::= [0-9]{4}
      month ::= "0" [1-9] | "1" [0-2]
      day   ::= "0" [1-9] | [12] [0-9] | "3" [01]`,
    regex: String.raw`\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])`,
    yes: ["2025-01-31", "0000-12-09"],
    no: ["2025-13-01", "2025-00-10", "2025-1-1", "2025-01-32"],
  },
  {
    name: "hex colour",
    ebnf: `
      root ::= "#" hex{3} (hex{3})?  # short or long
      hex  ::= [0-9a-fA-F]`,
    regex: "#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})",
    yes: ["#fff", "#A0b1C2"],
    no: ["fff", "#ff", "#ffff", "#ggg"],
  },
  {
    name: "small JSON",
    ebnf: String.raw`
      root   ::= "{" space "\"name\"" colon string comma "\"age\"" colon age comma
                 "\"tags\"" colon tags space "}"
      colon  ::= space ":" space
      comma  ::= space "," space
      string ::= "\"" ([^"\\\x00-\x1F] | "\\" ["\\/bfnrt])* "\""
      age    ::= "0" | [1-9] [0-9]{0,2}
      tags   ::= "[" space (string (comma string)*)? space "]"
      space  ::= [ \t\r\n]{0,3}`,
    regex: smallJson(),
    yes: ['{"name":"Ada","age":36,"tags":[]}', '{ "name": "é\\n", "age": 0, "tags": ["a", "語"] }'],
    no: ['{"name":"Ada"}', '{"name":"a"b","age":1,"tags":[]}', '{"name":"","age":1000,"tags":[]}'],
  },
  {
    name: "log line",
    ebnf: String.raw`
      root    ::= "[" time "] " level ": " message
      time    ::= two ":" two ":" two ("." [0-9]{3})?
      two     ::= [0-9]{2}
      level   ::= "DEBUG" | "INFO"
                | "WARN"
                | "ERROR"
      message ::= [^\n]+`,
    regex: String.raw`\[\d\d:\d\d:\d\d(\.\d{3})?\] (DEBUG|INFO|WARN|ERROR): [^\n]+`,
    yes: ["[12:30:59] INFO: started", "[00:00:00.125] ERROR: größe 語"],
    no: ["12:30:59 INFO: x", "[12:30] INFO: x", "[12:30:59] TRACE: x", "[12:30:59] INFO: a\nb"],
  },
];

function smallJson(): string {
  const space = String.raw`[ \t\r\n]{0,3}`;
  const string = String.raw`"([^"\\\x00-\x1F]|\\["\\/bfnrt])*"`;
  const [colon, comma] = [`${space}:${space}`, `${space},${space}`];
  const tags = String.raw`\[${space}(${string}(${comma}${string})*)?${space}\]`;
  const fields = [
    `"name"${colon}${string}`,
    `"age"${colon}(0|[1-9]\\d{0,2})`,
    `"tags"${colon}${tags}`,
  ];
  return `\\{${space}${fields.join(comma)}${space}\\}`;
}
