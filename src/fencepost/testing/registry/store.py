"""Subjects, versions and ids of the registry, with its settings; no I/O.

A subject has versions, numbered from 1. A soft-deleted version is not used any more, but its
id is still answered; deleted permanently it is gone, and with the last version that has it, the id.
Numbers of versions go on behind deleted ones, as long as one of them is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from fencepost.testing.registry import errors
from fencepost.testing.registry.errors import (
    RegistryError,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from fencepost.testing.registry.levels import DEFAULT, check_level, incompatibilities
from fencepost.testing.registry.schemas import Reference, Schema, parse

MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
SHOWN_MAX = 20
"""Reasons that an incompatible schema is told with."""

Numbered = Sequence[tuple[int, Schema]]
"""Schemas with their versions, in order."""


@dataclass
class Version:
    """One version of a subject."""

    subject: str
    number: int
    schema_id: int
    schema: Schema
    is_deleted: bool = False


@dataclass
class Settings:
    """Of a subject, or of all; None: not set."""

    compatibility: str | None = None
    normalize: bool | None = None
    mode: str | None = None


@dataclass
class Store:
    """All of it. Not safe to be used by two threads at once, but that others may use it while
    `compare` runs, which may take seconds."""

    compare: Callable[[str, Schema, Numbered], list[str]] = incompatibilities
    """By level and schema, why that may not follow those versions."""
    subjects: dict[str, dict[int, Version]] = field(default_factory=dict)
    overall: Settings = field(default_factory=Settings)
    settings: dict[str, Settings] = field(default_factory=dict)
    _unchecked: dict[int, Schema] = field(default_factory=dict)
    _last_id: int = 0

    # -- looking ---------------------------------------------------------------------------------

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """In order, without deleted ones unless they are wanted. RegistryError if there is none."""
        found = [
            one for one in self.subjects.get(subject, {}).values() if deleted or not one.is_deleted
        ]
        if not found:
            raise subject_not_found(subject)
        return sorted(found, key=lambda one: one.number)

    def version(self, subject: str, number: int | None, *, deleted: bool = False) -> Version:
        """That version; None: the latest. RegistryError."""
        found = self.versions(subject, deleted=deleted)
        if number is None:
            return found[-1]
        for one in found:
            if one.number == number:
                return one
        raise version_not_found(number)

    def all_versions(self, *, deleted: bool = False) -> Iterator[Version]:
        """Of all subjects, by name and number."""
        for subject in sorted(self.subjects):
            for number in sorted(self.subjects[subject]):
                one = self.subjects[subject][number]
                if deleted or not one.is_deleted:
                    yield one

    def with_id(self, schema_id: int) -> list[Version]:
        """Where a schema is used, soft-deleted versions among them. RegistryError if nowhere."""
        found = [one for one in self.all_versions(deleted=True) if one.schema_id == schema_id]
        if not found and schema_id not in self._unchecked:
            raise schema_not_found(schema_id)
        return found

    def schema(self, schema_id: int) -> Schema:
        """By id. RegistryError."""
        found = self.with_id(schema_id)
        return found[0].schema if found else self._unchecked[schema_id]

    def lookup(self, subject: str, schema: Schema, *, deleted: bool = False) -> Version:
        """The version that is this schema. RegistryError."""
        for one in reversed(self.versions(subject, deleted=deleted)):
            if one.schema.key == schema.key:
                return one
        raise schema_not_found()

    def referenced_by(self, subject: str, number: int, *, deleted: bool = False) -> list[Version]:
        """Versions that name this one."""
        return [
            one
            for one in self.all_versions(deleted=deleted)
            if any((ref.subject, ref.version) == (subject, number) for ref in one.schema.references)
        ]

    # -- schemas ---------------------------------------------------------------------------------

    def parse(
        self, subject: str, kind: str, text: str, references: Sequence[Reference], normalize: bool
    ) -> Schema:
        """A schema, normalised if it is asked for or set. RegistryError."""
        return parse(
            kind, text, references, self._referred, normalize=normalize or self.normalize(subject)
        )

    def _referred(self, reference: Reference) -> Schema:
        try:
            number = None if reference.version == -1 else reference.version
            return self.version(reference.subject, number, deleted=True).schema
        except RegistryError as error:
            named = f"{reference.name} is version {reference.version} of {reference.subject}"
            raise errors.invalid_schema(f"it names what is not there: {named}") from error

    def register(
        self, subject: str, schema: Schema, schema_id: int | None = None, number: int | None = None
    ) -> Version:
        """A new version, or the one that is this schema. RegistryError for one that may not follow
        the others, and where the subject is read-only; an id and a version of one's own are for the
        mode IMPORT."""
        if not subject:
            raise RegistryError(errors.INVALID_SUBJECT, f"The subject {subject!r} is not valid")
        compared, reasons = None, []
        while (known := self._known(subject, schema, schema_id)) is None:
            held_against = self.compatibility(subject), self._earlier(subject)
            if schema_id is not None or held_against == compared:
                break
            level, earlier = compared = held_against
            reasons = self.compare(level, schema, earlier)  # others may change all of it meanwhile
        if known is not None:
            return known
        if reasons:
            raise RegistryError(
                errors.INCOMPATIBLE_SCHEMA,
                f"Schema being registered is incompatible with an earlier schema for subject"
                f' "{subject}", details: {reasons[:SHOWN_MAX]}, compatibility: {level}',
            )
        # A schema that this one refers to may have been deleted since it was parsed.
        for one in schema.references:
            self._referred(one)
        return self._add(subject, schema, schema_id, number)

    def _known(self, subject: str, schema: Schema, schema_id: int | None) -> Version | None:
        """The version that is this schema, which need not be registered then. RegistryError where
        it may not be registered at all."""
        self._check_writable(subject)
        is_import = self.mode(subject) == "IMPORT"
        if is_import != (schema_id is not None):
            state = "is in import mode" if is_import else "is not in import mode"
            raise RegistryError(errors.OPERATION_NOT_PERMITTED, f"Subject {subject} {state}")
        try:
            known = self.lookup(subject, schema)
        except RegistryError:
            return None
        return known if schema_id in (None, known.schema_id) else None

    def _add(
        self, subject: str, schema: Schema, schema_id: int | None, number: int | None
    ) -> Version:
        if schema_id is None:
            schema_id = self._id_of(schema)
        else:
            for one in self.all_versions(deleted=True):
                if one.schema_id == schema_id and one.schema.key != schema.key:
                    raise RegistryError(
                        errors.OPERATION_NOT_PERMITTED,
                        f"Overwrite new schema with id {schema_id} is not permitted.",
                    )
        versions = self.subjects.setdefault(subject, {})
        number = number or max(versions, default=0) + 1
        versions[number] = Version(subject, number, schema_id, schema)
        self._last_id = max(self._last_id, schema_id)
        return versions[number]

    def _id_of(self, schema: Schema) -> int:
        for one in self.all_versions(deleted=True):
            if one.schema.key == schema.key:
                return one.schema_id
        return self._last_id + 1

    def put_unchecked(self, schema_id: int, schema: Schema, subject: str | None) -> None:
        """A schema as it is, without a look at it: of no subject, or a new version of one."""
        if subject is None:
            self._unchecked[schema_id] = schema
            self._last_id = max(self._last_id, schema_id)
        else:
            self._add(subject, schema, schema_id, None)

    def incompatibilities(self, subject: str, schema: Schema, number: int = 0) -> list[str]:
        """Why it may not follow the versions of the subject, or one of them (-1: the last)."""
        pairs = self._earlier(subject)
        if number:
            pairs = pairs[-1:] if number < 0 else [one for one in pairs if one[0] == number]
        return self.compare(self.compatibility(subject), schema, pairs)

    def _earlier(self, subject: str) -> list[tuple[int, Schema]]:
        """The versions that a new one is held against, in order."""
        versions = self.subjects.get(subject, {}).values()
        live = [one for one in versions if not one.is_deleted]
        return [(one.number, one.schema) for one in sorted(live, key=lambda one: one.number)]

    # -- deleting --------------------------------------------------------------------------------

    def delete_subject(self, subject: str, *, permanent: bool) -> list[int]:
        """All versions; which those were. RegistryError."""
        self._check_writable(subject)
        found = self.versions(subject, deleted=True)
        live = [one for one in found if not one.is_deleted]
        if permanent and live:
            raise RegistryError(
                errors.SUBJECT_NOT_SOFT_DELETED,
                f"Subject '{subject}' was not deleted first before being permanently deleted",
            )
        if not permanent and not live:
            raise RegistryError(
                errors.SUBJECT_SOFT_DELETED,
                f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently",
            )
        chosen = found if permanent else live
        for one in chosen:
            self._check_unreferenced(one, permanent, within=subject)
        if permanent:
            del self.subjects[subject]
            self.settings.pop(subject, None)
        for one in chosen:
            one.is_deleted = True
        return [one.number for one in chosen]

    def delete_version(self, subject: str, number: int | None, *, permanent: bool) -> int:
        """One version; its number. RegistryError."""
        self._check_writable(subject)
        one = self.version(subject, number, deleted=True if number is not None else permanent)
        where = f"Subject '{subject}' Version {one.number}"
        if permanent and not one.is_deleted:
            raise RegistryError(
                errors.VERSION_NOT_SOFT_DELETED,
                f"{where} was not deleted first before being permanently deleted",
            )
        if not permanent and one.is_deleted:
            raise RegistryError(
                errors.VERSION_SOFT_DELETED,
                f"{where} was soft deleted. Set permanent=true to delete permanently",
            )
        self._check_unreferenced(one, permanent)
        one.is_deleted = True
        if permanent:
            del self.subjects[subject][one.number]
            if not self.subjects[subject]:
                del self.subjects[subject]
        return one.number

    def _check_unreferenced(self, one: Version, permanent: bool, within: str = "") -> None:
        by = self.referenced_by(one.subject, one.number, deleted=permanent)
        if any(other.subject != within for other in by):
            raise RegistryError(
                errors.REFERENCE_EXISTS,
                f"One or more references exist to the schema {one.subject} version {one.number}",
            )

    # -- settings --------------------------------------------------------------------------------

    def of(self, subject: str | None) -> Settings:
        """Those of a subject, or of all, to be read and changed."""
        return self.overall if subject is None else self.settings.setdefault(subject, Settings())

    def compatibility(self, subject: str | None) -> str:
        """The level that applies."""
        own = self.settings.get(subject or "", Settings()).compatibility
        return own or self.overall.compatibility or DEFAULT

    def normalize(self, subject: str | None) -> bool:
        """Whether schemas are normalised without being asked for it."""
        own = self.settings.get(subject or "", Settings()).normalize
        return bool(self.overall.normalize if own is None else own)

    def mode(self, subject: str | None) -> str:
        """The mode that applies."""
        own = self.settings.get(subject or "", Settings()).mode
        return own or self.overall.mode or MODES[0]

    def set_compatibility(self, subject: str | None, level: object) -> None:
        """RegistryError for a level that is none."""
        self.of(subject).compatibility = check_level(level)

    def set_mode(self, subject: str | None, mode: object, *, force: bool) -> None:
        """RegistryError for a mode that is none, and for IMPORT where there are schemas."""
        if mode not in MODES:
            raise RegistryError(
                errors.INVALID_MODE, f"Invalid mode {mode!r}. Valid values are {', '.join(MODES)}"
            )
        if mode == "IMPORT" and not force:
            subjects = self.subjects if subject is None else {subject} & set(self.subjects)
            if subjects:
                raise RegistryError(
                    errors.OPERATION_NOT_PERMITTED,
                    "Cannot import since found existing subjects",
                )
        self.of(subject).mode = str(mode)

    def _check_writable(self, subject: str) -> None:
        if self.mode(subject).startswith("READONLY"):
            raise RegistryError(
                errors.OPERATION_NOT_PERMITTED, f"Subject {subject} is in read-only mode"
            )
