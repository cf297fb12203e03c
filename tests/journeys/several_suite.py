"""What two fronts on one port and two workers promise, whatever broker is between them."""

import asyncio
import signal
from collections import Counter

from aiohttp import ClientSession

from tests.journeys.several import (
    Deployment,
    ask_all_partitions,
    caller,
    restart_everything,
    until_under_way,
)

ALL_CREATED = Counter({(201, ""): 48})


class SeveralProcesses:
    """The suite; a test class inherits it and gives the `deployment`, which every test leaves as it was."""

    async def test_two_fronts_with_the_same_number_each_get_their_own_answers(
        self, deployment: Deployment
    ) -> None:
        """The settings give both the number 3."""
        assert await ask_all_partitions(deployment, "same-number") == ALL_CREATED

    async def test_a_rolling_restart_fails_no_request(self, deployment: Deployment) -> None:
        """Workers first, then fronts, each asked to stop, waited for, and replaced."""
        load = await restart_everything(deployment)

        assert set(load.answers) == {(201, "")}

    async def test_the_partitions_of_a_killed_worker_answer_again_while_requests_wait(
        self, deployment: Deployment
    ) -> None:
        """Who waits for more than the time a worker may be silent, and much more, is reported 503."""
        async with deployment.another_front(SERVICE_ANSWER_TIMEOUT_S="60") as front:
            await deployment.workers.pop().kill()
            try:
                assert await ask_all_partitions(deployment, "takeover", front.url) == ALL_CREATED
            finally:
                await deployment.start_worker()

    async def test_a_front_asked_to_stop_is_not_ready_and_finishes_what_is_under_way(
        self, deployment: Deployment
    ) -> None:
        """A front on its own port, so that every question reaches it."""
        async with deployment.another_front(SERVICE_FRONT_DRAIN_S="6") as front, caller() as client:
            slow = asyncio.create_task(deployment.post(client, "sim:slow:6s", "slow", front.url))
            await until_under_way(client, front.url)
            front.process.send_signal(signal.SIGTERM)
            while True:
                async with client.get(f"{front.url}/readyz") as answer:
                    status, body, header = answer.status, await answer.json(), answer.headers
                if status == 503:
                    break

            assert body["dependencies"]["front"] == {"status": "down", "cause": "it was told to stop"}
            assert header["Connection"] == "close"
            assert await slow == (201, "")
            assert await front.process.wait() == 0

    async def test_a_worker_asked_to_stop_hands_over_what_it_cannot_finish(
        self, deployment: Deployment
    ) -> None:
        """Five seconds of work are more than it waits for; the other worker begins it anew."""
        async with caller() as client:
            slow = [
                asyncio.create_task(deployment.post(client, f"sim:slow:5s@handed-{n}", f"handed-{n}"))
                for n in range(5)
            ]
            await until_under_way(client, deployment.url)
            await deployment.end(deployment.workers, deployment.workers[0])
            try:
                assert Counter(await asyncio.gather(*slow)) == Counter({(201, ""): 5})
            finally:
                await deployment.start_worker()

    async def test_s61_what_one_front_admitted_another_counts(self, deployment: Deployment) -> None:
        """Two fronts with a limit of four a minute: who asked one four times is refused by the other."""
        limits = {"SERVICE_RATE_LIMITS": '{"key": 4}'}
        async with (
            deployment.another_front(**limits) as first,
            deployment.another_front(**limits) as second,
            caller() as client,
        ):
            asked = [await reads(deployment, client, first.url) for _ in range(5)]
            for pause_s in (0.5, 2.0, 30.0):  # on a busy machine the word may take its time
                heard = await reads(deployment, client, second.url, pause_s)
                if heard == 429:
                    break

        assert asked == [200] * 4 + [429]
        assert heard == 429


async def reads(deployment: Deployment, client: ClientSession, url: str, after_s: float = 0.0) -> int:
    """Ask for the list of verifications after a while; the status. Alone a front would admit four of them."""
    await asyncio.sleep(after_s)
    headers = {"Authorization": f"Bearer {deployment.key}"}
    async with client.get(f"{url}/v1/verifications", headers=headers) as answer:
        return answer.status
