"""`fencepost groups share-offsets` and `delete-share-offsets` against a served broker."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from .commands import Fencepost, Ran


def test_start_offsets_are_set_shown_and_forgotten(
    run: Fencepost, topic: str, produce: Callable[..., Ran]
):
    produce(topic, "1\n2\n3\n", "--partition", "0")
    group = f"g-{uuid.uuid4().hex[:10]}"
    planned: Any = run(
        "groups", "share-offsets", group, "--topic", topic, "--to", "2", "--dry-run", "--json"
    ).json
    assert [(one["partition"], one["offset"], one["new_offset"]) for one in planned] == [
        (0, None, 2),
        (1, None, 0),  # the log ends there
    ]
    moved: Any = run(
        "groups", "share-offsets", group, "--topic", f"{topic}:0", "--to", "2", "--json"
    ).json
    assert [(one["partition"], one["start_offset"], one["end"]) for one in moved] == [(0, 2, 3)]
    table = run("groups", "share-offsets", group).lines
    assert table[0].split() == ["topic", "partition", "start-offset", "end", "lag"]
    assert table[1].split()[:4] == [topic, "0", "2", "3"]
    described: Any = run("groups", "describe", group, "--json").json
    assert (described["kind"], described["state"]) == ("share", "Empty")
    assert [(one["partition"], one["offset"]) for one in described["partitions"]] == [(0, 2)]
    assert run("groups", "delete-share-offsets", group, topic).out == (
        f"group {group} has forgotten {topic}\n"
    )
    assert run("groups", "share-offsets", group, "--json").json == []
    assert run("groups", "delete", group).code == 0


def test_offsets_of_the_other_kind_are_pointed_at(run: Fencepost, topic: str):
    shares, consumers = (f"g-{uuid.uuid4().hex[:10]}" for _ in range(2))
    to = ("--topic", topic, "--to", "earliest")
    assert run("groups", "share-offsets", shares, *to).code == 0
    assert run("groups", "offsets", consumers, *to).code == 0
    is_share = f"group {shares} is of the type share: see `fencepost groups share-offsets {shares}`"
    is_other = f"see `fencepost groups offsets {consumers}`"
    for words, told in (
        (("offsets", shares), is_share),
        (("offsets", shares, *to), is_share),
        (("delete-offsets", shares, topic), is_share),
        (("share-offsets", consumers), is_other),
        (("share-offsets", consumers, *to), is_other),
        (("share-offsets", f"{shares}-x"), f"no such group: {shares}-x"),
    ):
        ran = run("groups", *words)
        assert ran.code == 1 and told in ran.err, (words, ran.err)


def test_options_that_do_not_go_together(run: Fencepost):
    assert run("groups", "share-offsets", "g", "--to", "earliest").code == 2
    assert run("groups", "share-offsets", "g", "--topic", "t", "--dry-run").code == 2
