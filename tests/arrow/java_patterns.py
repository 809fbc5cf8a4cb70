"""Patterns of Java and names, for the tests with and without a Java."""

from __future__ import annotations

NAMES = (
    "orders", "Orders", "orders-1", "orders.eu", "orders_eu", "a", "b", "z", "ab", "abc", "aa",
    "aaa", "A1", "1", "42", "x.y", "x-y", "-", "_", "__x", "a.b.c", "ordersorders", "É",
)  # fmt: skip
EXPRESSED = (
    "orders", "orders.*", ".*", "(orders|a)", "(?:orders|a)", "(?<one>a)(?<two>b)c?", "a|b|",
    "[a-c]+", "[^a-c]+", "[a-c&]", "[-a]+", "[a-]+", "[]a]", "[^]a]", "[a^]", "[a[bz]]+",
    "[a[b[c]]]+",
    "[[:alpha:]]", r"[\w.]+", r"[\d-]+", r"[^\s]+", r"[\D]+", r"[\W]", r"[\.\-]",
    r"[\p{Alpha}-]+",
    r"\w+", r"\W", r"\d+", r"\D+", r"\S+", r"\h*", r"\p{Lower}+", r"\p{Upper}.*", r"\p{Alpha}+",
    r"\P{Alpha}+", r"\p{Alnum}+", r"\p{Punct}", r"\p{Digit}+", r"\p{XDigit}+", r"\p{Graph}+",
    r"\p{L}+", r"\pL+", r"\PL+", r"\p{Lu}.*", r"\p{IsL}+", r"\p{ASCII}+", r"\p{Space}",
    r"\Qx.y\E", r"\Qx.\E[xy]", r"\Qorders", r"x\.y", r"x\-y", r"\x61", r"\x{61}b", r"\u0061.*",
    r"\0141",
    r"[\x61-\x63]+", r"[\Qa-z\E]+", "a{2}", "a{1,2}", "a{2,}", "a*?", "a+?b?", "(ab?)+", "^a$",
    r"\Aa\z",
    r"a\Z", r"\ba\b", r"x\b.y", r"a\B.*", "(?i)ORDERS", "(?i:ORDERS)-1", "o(?i)R(?-i)ders",
    "(?s).*",
    "(?im-s)A", "(?u)a", "(?d)a", "()", "(a)(b)?", "a}", "a]", "",
    "rder", "^ord", "rs$", "^.*-1$", r"^\w+$", r"\.", "[.]eu", "^[a-z]+$", "(?i)^ORD", "s-?1", "^$",
    "s|z$", r"\Bb", r"s\b", r"\b1$", "^(?:orders|a)$", "^(?i:o)r", "[^a-z]$",
    r"\R", r"\v", r"\t", r"\cA", "É", "[É]", r"\_", r"\.",
)  # fmt: skip
"""Must give what Java gives."""
CANNOT = (
    r"(a)\1", r"(?<x>a)\k<x>", "(?=o)orders", "(?!a).*", "(?<=a)b", "(?<!a)b", "(?>a+)b",
    "a*+", "a++",
    "a?+", "a{2}+", "[a-z&&[^b]]", "[a[^b]]", "[^a[b]]", r"\X", r"\G", r"\b{g}a", "(?x)a b", "{2}",
    r"\p{IsAlphabetic}", r"\p{javaLowerCase}+", r"\p{InGreek}", r"[\P{Alpha}]", r"[\H]",
    r"\N{DIGIT ONE}",
)  # fmt: skip
"""Java's, and refused."""
WRONG = (
    "(", ")", "[", "[a", "a{", "a{,3}", "*", "a**", r"\y", "\\", "(?P<x>a)",
    r"\p{Nothing}",
    "(?<1>a)", r"a\E", r"\u12",
)  # fmt: skip
"""Wrong in Java as well."""
