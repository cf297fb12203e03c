"""A verification is submitted once, answered once, and read back by nobody else."""


from tests.http.support import Front


async def test_a_new_verification_answers_201(front: Front) -> None:
    told = await front.submit()

    assert (told.status, told.json["status"], told.json["decision"]) == (201, "APPROVED", "ALLOW")
