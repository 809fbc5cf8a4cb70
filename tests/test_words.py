"""Words that only this project uses are banned; docs/GLOSSARY.md has the field's own.

Sentences have a subject that a reader knows: the leader, a producer, the client. Subjects that name
no one are counted, and their number may only fall.
"""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READ = {".py", ".pyx", ".pxi", ".h", ".md"}
# What was found in names and sentences (regular expressions over single words), and what to say.
BANNED = {
    r"reigns?|reigning": "leader epoch, term, leadership",
    r"rots?|rotted|rotten|rotting": "corrupt, CRC mismatch",
    r"(?:told|telling) off": "refused, disconnected",
    r"(?:hung|hang|hangs|hanging) up": "disconnected, closes the connection",
    r"(?:sent|send|sends) away": "redirected, refused",
    r"may hope|hopes?|hopeful|hoping": "may grant, expects",
    r"absurd|unbelievable|of sound mind": "out of range, invalid claim",
    r"weigh rival|rivals?": "conflicting leader",
    r"disclaims?|disclaimed": "refuse",
    r"tak(?:e|es|en|ing) leave|took leave|farewells?": "resignation, EndQuorumEpoch, shutdown",
    r"hurried|hurries|hurry": "early election, at once",
    r"introductions?|introduced voter": "pending AddRaftVoter",
    r"vote floor|promised end": "acknowledged log end",
    r"flaws?|flawed": "reason, error, defect",
    r"(?:gives?|given|giving|gave) way": "is evicted, yields",
    r"hearsay": "metadata not yet applied",
    r"news": "update, change",
    r"held room|room (?:bytes|left)": "buffered bytes, available bytes",
    r"piecework|turns py": "cooperative scheduler",
    r"openings": "log recovery pool",
    r"mending|mends?|mended": "repair",
    r"leftovers": "interrupted cleanup, files of an interrupted change",
    r"swaps": "swap files",
    r"(?:another|other|earlier|former|new|one|its) (?:life|lives)": "incarnation, run",
    r"bench (?:py|world)": "fixtures",
    r"unsound": "invalid, inconsistent",
    r"filth|filthy|filthiest|rubbish": "malformed, invalid",
}
WORDS = re.compile(rf"(?<![a-z0-9])(?:{'|'.join(BANNED)})(?![a-z0-9])")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
BETWEEN = re.compile(r"[_\s]+(?:(?:#|//|\*) )?|-(?=[a-z])")


def plain(text: str) -> str:
    """`hungUp`, `hung_up` and a `hung` at a line's end before `# up` all read as `hung up`."""
    return BETWEEN.sub(" ", CAMEL.sub(" ", text)).lower()


def found_in(path: Path) -> set[str]:
    return set(WORDS.findall(plain(path.read_text())))


def test_the_words_are_found_in_names_and_sentences():
    for text in ("isHungUp", "is_hung_up_on", "hung\n    # up", "Rotten", "leader's reign"):
        assert WORDS.search(plain(text)), text
    for text in (
        "protocol",
        "scope",
        "rotate",
        "hung",
        "newsletter",
    ):
        assert not WORDS.search(plain(text)), text


def test_nobody_uses_words_of_this_project_alone():
    found = {}
    for folder in ("src", "docs", "tests", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*")):
            if (
                path.suffix in READ
                and path != Path(__file__).resolve()
                and (banned := found_in(path))
            ):
                found[path.relative_to(ROOT).as_posix()] = sorted(banned)
    assert not found


# "whoever waits is answered" hides who waits. How many such sentences are left is below, by folder
# (none where it is not named); a number that was lowered stays so.
SUBJECTS = re.compile(r"(?<![a-z_])(?:whoever|nobody|somebody|who asks|anew)(?![a-z_])")
SUBJECTS_MAX = {"src": 34, "tests": 90}
UNUSED_MAX = 10
"""How many fewer there may be in all before the numbers have to be lowered."""


def subjects_found() -> Counter[str]:
    found: Counter[str] = Counter()
    for folder in ("src", "docs", "tests", "benchmarks", "tools", "examples"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in READ and path != Path(__file__).resolve():
                found[folder] += len(SUBJECTS.findall(sentences(path)))
    for path in ROOT.glob("*.md"):
        found["."] += len(SUBJECTS.findall(sentences(path)))
    return found


def sentences(path: Path) -> str:
    """The text in small letters, with one space between words, whatever the line breaks."""
    return re.sub(r"\s+(?:# )?", " ", path.read_text()).lower()


def test_subjects_that_name_no_one_only_become_fewer():
    found = subjects_found()
    more = {
        folder: f"{count}, not {SUBJECTS_MAX.get(folder, 0)}"
        for folder, count in sorted(found.items())
        if count > SUBJECTS_MAX.get(folder, 0)
    }
    assert not more, "say who: the leader, a producer, the client"
    assert sum(SUBJECTS_MAX.values()) - found.total() <= UNUSED_MAX, "lower SUBJECTS_MAX"


def test_subjects_are_found_over_line_breaks_and_not_in_names():
    assert SUBJECTS.findall("whoever reads, and somebody else, made anew") == [
        "whoever",
        "somebody",
        "anew",
    ]
    assert not SUBJECTS.findall("begin_anew(nobody_leads)")
