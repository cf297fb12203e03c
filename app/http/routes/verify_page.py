"""`/verify`: where a session's `url` leads; it says what to do until the page that takes pictures is there.

The token is in the fragment, which no browser sends: the page is the same for every session, an ended one
too, and its language is the browser's.
"""

from collections.abc import Mapping
from html import escape
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from aiohttp import web

from app.http.endpoints import Answer, Call, Endpoint
from app.http.headers import language

PATH: Final = "/verify"
HTML: Final = "text/html"

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=(), display-capture=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Robots-Tag": "noindex",
    "Vary": "Accept-Language",
}

_TEXTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "en": (
            "There is no page behind your link yet",
            "Whoever sent you here wants to verify your identity.",
            "This service cannot take your pictures in the browser yet.",
            "Nothing was taken from you. Your link and your device are in order.",
            "Go back to whoever sent you this link and tell them. They can offer you another way.",
        ),
        "fr": (
            "Il n'y a pas encore de page derrière votre lien",
            "Qui vous a envoyé ici veut vérifier votre identité.",
            "Ce service ne peut pas encore prendre vos photos dans le navigateur.",
            "Rien n'a été enregistré. Votre lien et votre appareil sont en ordre.",
            "Retournez vers qui vous a envoyé ce lien et dites-le-lui. Il y a une autre façon de faire.",
        ),
        "pt": (
            "Ainda não há uma página por trás do seu link",
            "Quem o enviou para aqui quer verificar a sua identidade.",
            "Este serviço ainda não pode tirar as suas fotografias no navegador.",
            "Nada foi recolhido. O seu link e o seu aparelho estão em ordem.",
            "Volte a quem lhe enviou este link e avise. Podem oferecer-lhe outra forma.",
        ),
        "es": (
            "Todavía no hay una página detrás de su enlace",
            "Quien le envió aquí quiere verificar su identidad.",
            "Este servicio todavía no puede tomar sus fotos en el navegador.",
            "No se ha recogido nada. Su enlace y su dispositivo están en orden.",
            "Vuelva a quien le envió este enlace y avísele. Pueden ofrecerle otra manera.",
        ),
        "de": (
            "Hinter Ihrem Link ist noch keine Seite",
            "Wer Ihnen den Link geschickt hat, möchte Ihre Identität prüfen.",
            "Dieser Dienst kann Ihre Bilder noch nicht im Browser aufnehmen.",
            "Es wurde nichts von Ihnen gespeichert. Ihr Link und Ihr Gerät sind in Ordnung.",
            "Wenden Sie sich an die Stelle, die Ihnen den Link geschickt hat. Sie bietet einen anderen Weg.",
        ),
    }
)
"""Headline, what this is, what did not happen, what to do; the first language is the last resort."""

_INTEGRATORS: Final = (
    "For developers: send the pictures with the session's client_token to /v1/capture, as /v1/openapi.json "
    "describes."
)


def _page(code: str) -> str:
    headline, *lines = _TEXTS[code]
    paragraphs = "".join(f"<p>{escape(line)}</p>\n" for line in lines)
    return (
        f'<!doctype html>\n<html lang="{code}">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(headline)}</title>\n<main>\n<h1>{escape(headline)}</h1>\n{paragraphs}"
        f'<p lang="en"><small>{escape(_INTEGRATORS)}</small></p>\n</main>\n</html>\n'
    )


_PAGES: Final = MappingProxyType({code: _page(code).encode() for code in _TEXTS})


async def show(call: Call) -> web.Response:
    """Answer the page in the language the browser likes best among those there are."""
    code = language(call.request, tuple(_PAGES))
    headers = {**_HEADERS, "Content-Language": code}
    return web.Response(body=_PAGES[code], content_type=HTML, charset="utf-8", headers=headers)


def verify_page_endpoints() -> tuple[Endpoint, ...]:
    """Return the route as data."""
    return (
        Endpoint(
            method="GET",
            path=PATH,
            handler=show,
            summary="Show where a session's link leads",
            family="Pages",
            answers={HTTPStatus.OK: Answer("The page.", media_type=HTML)},
            described=False,
        ),
    )
