/**
 * The terminals that Lark grammars import from its library `common`, as regular expressions.
 *
 * @module
 */

const INT = "[0-9]+";
const DECIMAL = "(?:[0-9]+\\.[0-9]*|\\.[0-9]+)";
const EXPONENT = "[eE][+-]?[0-9]+";
const FLOAT = `(?:${INT}${EXPONENT}|${DECIMAL}(?:${EXPONENT})?)`;
const NUMBER = `(?:${FLOAT}|${INT})`;

/** By name. */
export const COMMON_TERMINALS: ReadonlyMap<string, string> = new Map([
  ["DIGIT", "[0-9]"],
  ["HEXDIGIT", "[0-9A-Fa-f]"],
  ["INT", INT],
  ["SIGNED_INT", `[+-]?${INT}`],
  ["DECIMAL", DECIMAL],
  ["_EXP", EXPONENT],
  ["FLOAT", FLOAT],
  ["SIGNED_FLOAT", `[+-]?${FLOAT}`],
  ["NUMBER", NUMBER],
  ["SIGNED_NUMBER", `[+-]?${NUMBER}`],
  ["ESCAPED_STRING", '"(?:[^"\\\\\\n]|\\\\[^\\n])*"'],
  ["LCASE_LETTER", "[a-z]"],
  ["UCASE_LETTER", "[A-Z]"],
  ["LETTER", "[A-Za-z]"],
  ["WORD", "[A-Za-z]+"],
  ["CNAME", "[A-Za-z_][0-9A-Za-z_]*"],
  ["WS_INLINE", "[ \\t]+"],
  ["WS", "[ \\t\\f\\r\\n]+"],
  ["CR", "\\r"],
  ["LF", "\\n"],
  ["NEWLINE", "(?:\\r?\\n)+"],
  ["SH_COMMENT", "#[^\\n]*"],
  ["CPP_COMMENT", "//[^\\n]*"],
  ["C_COMMENT", "/\\*(?:[^*]|\\*+[^*/])*\\*+/"],
  ["SQL_COMMENT", "--[^\\n]*"],
]);
