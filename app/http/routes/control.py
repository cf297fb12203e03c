"""Everything a reviewer needs to get in: sessions, second factor and password, put together."""

from app.http.bodies import BodyReader
from app.http.endpoints import Endpoint
from app.http.ports import FrontPorts, FrontSettings
from app.http.routes.control_mfa import FactorRoutes, factor_endpoints
from app.http.routes.control_password import PasswordRoutes, password_endpoints
from app.http.routes.control_sessions import SessionRoutes, session_endpoints
from streams.sign_in.attempt_limits import SignInLimits
from streams.sign_in.passwords import ChangePassword, ResetPassword
from streams.sign_in.sign_in import SignIn


def sign_in_endpoints(ports: FrontPorts, bodies: BodyReader, settings: FrontSettings) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    people, base_url = ports.people, settings.base_url
    limits = SignInLimits(None if settings.rate_limits is None else settings.rate_limits.sign_in)
    change, reset = ChangePassword(people, limits), ResetPassword(people, limits)
    return (
        *session_endpoints(SessionRoutes(ports, bodies, base_url, SignIn(people, limits))),
        *factor_endpoints(FactorRoutes(ports, bodies, base_url)),
        *password_endpoints(PasswordRoutes(ports, bodies, base_url, change, reset)),
    )
