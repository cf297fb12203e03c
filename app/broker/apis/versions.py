"""ApiVersions and InitProducerId."""

from datetime import timedelta
from typing import NamedTuple

from kio.schema.api_versions.v3.response import ApiVersion
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i16, i64

from app.broker.errors import Refused
from app.broker.node import Call
from app.broker.wire import NO_THROTTLE


class UnsupportedApiVersions(NamedTuple):
    """The answer, always in version 0, to an ApiVersions request of an unknown version (KIP-511)."""

    error_code: ErrorCode
    api_keys: tuple[ApiVersion, ...]


class SpokenApiVersions(NamedTuple):
    """The answer to ApiVersions; the field names are the wire's. No features are versioned here."""

    error_code: ErrorCode
    api_keys: tuple[ApiVersion, ...]
    throttle_time: timedelta = NO_THROTTLE
    supported_features: tuple[()] = ()
    finalized_features_epoch: i64 = i64(-1)
    finalized_features: tuple[()] = ()
    zk_migration_ready: bool = False


async def init_producer_id(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Give an idempotent producer its id; a transactional one is refused."""
    if request.transactional_id is not None:
        return _producer(-1, -1, ErrorCode.transactional_id_authorization_failed)
    try:
        return _producer(await call.node.producer_ids.fresh(), 0, ErrorCode.none)
    except Refused as refused:
        return _producer(-1, -1, refused.code)


def _producer(producer_id: int, epoch: int, error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(epoch),
    )
