"""Words that only this project uses are banned; docs/GLOSSARY.md has the field's own."""

import re
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
# Still there, to become fewer. `bit-rot` and its like name faults: recorded runs draw by these
# names. `rot` and `mend` are commands of the simulator's scripts.
LEFT = {
    "src/fencepost/cli/sim.py": ("mended",),
    "src/fencepost/sim/brokers/broker.py": ("news",),
    "src/fencepost/sim/by_hand.py": ("mend",),
    "src/fencepost/sim/explore/space.py": ("swaps",),
    "src/fencepost/sim/faults/bit_rot.py": ("rot",),
    "src/fencepost/sim/faults/one_way_cut.py": ("mend",),
    "src/fencepost/sim/faults/partition.py": ("mend", "mended"),
    "src/fencepost/sim/faults/snapshot_rot.py": ("rot",),
    "src/fencepost/sim/faults/state_rot.py": ("rot",),
    "src/fencepost/sim/network.py": ("mend",),
    "src/fencepost/sim/script.py": ("news",),
    "src/fencepost/sim/script_commands.py": ("mend", "rot"),
    "docs/SIMULATOR.md": ("mend", "rot"),
    "docs/TESTING.md": ("rot",),
    "tests/machines/test_quorum_reconfiguration.py": ("mend",),
    "tests/sim/test_command.py": ("rot",),
    "tests/sim/test_draft_followers.py": ("rot",),
    "tests/sim/test_every_check.py": ("rot",),
    "tests/sim/test_faults.py": ("rot",),
    "tests/sim/test_network.py": ("mend",),
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
            if path.suffix in READ and path != Path(__file__).resolve():
                name = path.relative_to(ROOT).as_posix()
                if left := found_in(path) - set(LEFT.get(name, ())):
                    found[name] = sorted(left)
    assert not found


def test_what_is_left_is_still_there():
    """Whoever takes a word out of a file takes it out of the list."""
    for name, words in LEFT.items():
        assert set(words) <= found_in(ROOT / name), name
