"""Topics on a real Kafka, made before anybody writes to them."""

from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped]  # ships no types


async def create_topic(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> None:
    """Make a topic; keywords are configurations with underscores for dots."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        answer = await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=dotted)])
        assert [error for _, error, *_ in answer.topic_errors] == [0], answer
    finally:
        await admin.close()
