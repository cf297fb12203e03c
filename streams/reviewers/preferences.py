"""Change a reviewer's own preferences (P21)."""

from collections.abc import Mapping
from typing import Any

from schemas.audit import Actor, AuditAction
from schemas.people import Preferences, Reviewer, ReviewerCaller
from streams.audit.rows import write_row
from streams.reviewers.context import People
from streams.reviewers.members import Amended, amend


async def change_preferences(
    people: People, caller: ReviewerCaller, changes: Mapping[str, Any], actor: Actor
) -> Preferences:
    """Change what is named of the caller's preferences; what stays as it was writes nothing.

    Raises:
        NotFound: The caller is no member any more.
    """
    row_id = people.new_id("aud")

    async def changed(member: Reviewer) -> Amended:
        chosen = member.preferences.model_copy(update=dict(changes))
        if chosen == member.preferences:
            return Amended(member)
        row = write_row(
            row_id,
            AuditAction.REVIEWER_PREFERENCES_CHANGED,
            actor,
            member.reviewer_id,
            people.clock(),
            detail="A reviewer changed their preferences.",
            changes=dict(changes),
        )
        return Amended(member.model_copy(update={"preferences": chosen}), (row,))

    return (await amend(people, caller.tenant_id, caller.reviewer_id, changed)).preferences
