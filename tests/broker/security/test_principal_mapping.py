"""`ssl.principal.mapping.rules`: what Kafka's SslPrincipalMapper does, and Java's regex flavour."""

import pytest

from fencepost.broker.security.java_regex import JavaRegexError, compile_java_regex
from fencepost.broker.security.principal_mapping import NoPrincipalError, PrincipalMapping
from fencepost.log.configdef import ConfigError

RULES = ", ".join(
    [
        r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        r"RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        r"DEFAULT",
    ]
)


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        (RULES, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        (RULES, "CN=duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (RULES, "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        (RULES, "cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        (RULES, "OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
        ("DEFAULT", "CN=x", "CN=x"),
        (r"RULE:CN=(\w+)/a$1b/", "CN=x", "axb"),
        # references to groups that are not there are literal; as many digits as there are groups
        (r"RULE:^CN=(\w+)$/$1@$2/", "CN=x", "x@$2"),
        (r"RULE:^CN=(\w+)$/$12/", "CN=x", "x2"),
        (r"RULE:^CN=(\w+)$/$0/", "CN=x", "CN=x"),
        (r"RULE:^CN=(?<user>\w+)$/${user}/U", "CN=x", "X"),
        (r"RULE:^CN=(\w+)(z)?$/$1$2/", "CN=x", "x"),
        # what is escaped stays within the rule
        (r"RULE:^CN=a\/(\w+)$/\/$1\$/", "CN=a/x", "/x$"),
        (r"RULE:CN=(\w+),.*/$1/, DEFAULT", "CN=x,O=y", "x"),
        # a rule has to match the whole name
        (r"RULE:CN=(\w+)/$1/,DEFAULT", "CN=x,O=y", "CN=x,O=y"),
        (r"RULE:CN=(.*)/$1/", "CN=x", "x"),
        # replaceAll goes on behind the first match, and matches nothing at the end
        (r"RULE:(.*)/x/", "CN=a", "xx"),
        (r"RULE:.*?CN=([^,]*?)(,.*)?/$1/", "CN=", ""),
    ],
)
def test_the_first_rule_that_matches_decides(rules, name, expected):
    assert PrincipalMapping(rules).name_of(name) == expected


def test_a_name_that_no_rule_matches_is_not_let_in():
    for rules in (r"RULE:^CN=(\w+)$/$1/", ""):
        with pytest.raises(NoPrincipalError, match="no rule of"):
            PrincipalMapping(rules).name_of("O=x")
    with pytest.raises(NoPrincipalError, match="4097 characters"):
        PrincipalMapping("DEFAULT").name_of("x" * 4097)


@pytest.mark.parametrize(
    "rules",
    [
        "DEFAULTS",
        "default",
        "RULE:a",
        "RULE:a/b",
        "RULE:a/b/X",
        "RULE:a/b/LU",
        "RULE:(/x/",
        "RULE:a/$/",
        "RULE:a/$1/",
        "RULE:(a)/${no}/",
        r"RULE:\p{Alpha}/x/",
        "RULE:[a&&b]/x/",
        "RULE:*/x/",
    ],
)
def test_rules_that_cannot_be_read_are_start_errors(rules):
    with pytest.raises(ConfigError) as caught:
        PrincipalMapping(rules, "listener.name.a.ssl.principal.mapping.rules")
    assert caught.value.key == "listener.name.a.ssl.principal.mapping.rules"


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        (r"(?<n>a)\k<n>", ["aa"], ["a", "ab"]),
        (r"\Qa.b\E+", ["a.b", "a.bb"], ["axb"]),
        (r"\Qa.", ["a."], ["ab"]),
        (r"a*+b", ["aab"], ["aa"]),
        (r"(?>a|ab)c", ["ac"], ["abc"]),
        (r"\w+", ["az_9"], ["ä"]),
        (r"[^,]+\z", ["a"], ["a,"]),
        (r"[a\]]+", ["a]"], ["b"]),
        ("\\u00e4\\x41\\h", ["äA ", "äA\t"], ["äA"]),
        (r"(?i)cn=\d{2}", ["CN=12"], ["CN=1"]),
        (r"(?<=a)b|.(?<!b)", ["c"], ["b"]),
    ],
)
def test_java_regex(pattern, matches, others):
    compiled = compile_java_regex(pattern)
    assert all(compiled.fullmatch(text) for text in matches)
    assert not any(compiled.fullmatch(text) for text in others)


@pytest.mark.parametrize(
    "pattern",
    [r"\p{L}", r"\R", r"\G", "[a[b]]", "[a&&[b]]", "[]a]", r"\07", "a\\", "(", r"\cA", r"\k<x>"],
)
def test_what_java_has_and_python_has_not_is_refused(pattern):
    with pytest.raises(JavaRegexError):
        compile_java_regex(pattern)


def test_a_name_cannot_make_a_usual_rule_take_forever():
    """Java's documentation has this rule. With a name of 800 parts it would take hours."""
    rule = r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,DEFAULT"
    mapping = PrincipalMapping(rule)
    assert mapping.name_of("CN=Ada,OU=a\\=b,O=c,L=d,ST=e,C=f") == "ada@a\\=b"
    for many in (100, 30):
        name = "CN=a" + ",OU=" * many + ",O=" * many + ",L=" * many + ",ST=" * many
        with pytest.raises(NoPrincipalError, match=r"attributes|characters"):
            mapping.name_of(name)
    few = "CN=a" + ",OU=" * 8 + ",O=" * 8 + ",L=" * 8 + ",ST=" * 7
    assert mapping.name_of(few) == few
