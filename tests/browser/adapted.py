"""A page as people adapt it: enlarged, with wider text, in the system's colours, without motion."""

from dataclasses import dataclass, field
from typing import Any, Final

from tests.browser.shown import DRAWN, Shown

_SPACING: Final = """() => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`p { margin-block-end: 2em !important; }
    * { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important; }`);
  document.adoptedStyleSheets = [sheet];
}"""
"""Sets the text as WCAG 1.4.12 lets a person set it."""

_NORMAL: Final = "() => { document.adoptedStyleSheets = []; }"

_CUT: Final = """() => {
  const found = [], places = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = places.nextNode(); text !== null; text = places.nextNode()) {
    const owner = text.parentElement;
    const words = text.data.trim();
    if (!words || !owner.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const own = getComputedStyle(owner);
    if (owner.closest("noscript, option") || own.clipPath !== "none" || own.fontSize === "0px") continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const box = range.getBoundingClientRect();
    for (let one = owner; one !== document.body; one = one.parentElement) {
      const style = getComputedStyle(one), edge = one.getBoundingClientRect();
      const overflow = style.overflowX + style.overflowY;
      if (/auto|scroll/.test(overflow)) break;
      const clips = /hidden|clip/.test(overflow) && style.textOverflow !== "ellipsis";
      if (!clips && !one.matches("button, .button, .input, select")) continue;
      const across = Math.max(edge.left - box.left, box.right - edge.right);
      const out = Math.max(across, edge.top - box.top, box.bottom - edge.bottom);
      if (out > 1) found.push(`${words.slice(0, 40)} is cut by ${one.outerHTML.slice(0, 60)}`);
    }
  }
  return found;
}"""
"""Returns the texts that stick out of what clips them, or out of their own control."""

_UNREAD: Final = """() => [...document.querySelectorAll(".qr")]
  .filter(one => one.checkVisibility() && getComputedStyle(one).backgroundColor !== "rgb(255, 255, 255)")
  .map(() => "a QR code does not stand on white")"""
"""Its modules are black in any colours, and what is behind them is not theirs."""

_MOVING: Final = """() => document.getAnimations()
  .filter(one => Number(one.effect.getComputedTiming().duration) > 100 && one.playState === "running")
  .map(one => `${one.animationName ?? one.transitionProperty} moves`)"""


@dataclass(frozen=True, slots=True)
class Adaptation:
    """One way a person adapts a page."""

    name: str
    size: tuple[int, int]
    spaced: bool = False
    media: dict[str, Any] = field(default_factory=dict)


ADAPTATIONS: Final = (
    Adaptation("zoom-200", (640, 512)),
    Adaptation("zoom-400", (320, 256)),
    Adaptation("spacing", (320, 568), spaced=True),
    Adaptation("forced", (360, 640), media={"forced_colors": "active"}),
    Adaptation("forced-dark", (360, 640), media={"forced_colors": "active", "color_scheme": "dark"}),
)
"""A window of 1280 x 1024 pixels enlarged, text as WCAG 1.4.12 sets it, and high contrast."""


async def judge_adapted(shown: Shown, state: str) -> list[str]:
    """Return what is wrong with a state as people adapt it, and keep its pictures."""
    page, wrong, before = shown.page, list[str](), shown.page.viewport_size
    for one in ADAPTATIONS:
        await page.set_viewport_size({"width": one.size[0], "height": one.size[1]})
        await page.emulate_media(**{"forced_colors": "none", "color_scheme": "light", **one.media})
        await page.evaluate(_SPACING if one.spaced else _NORMAL)
        await page.evaluate(DRAWN)
        found = await page.evaluate(_CUT) + await page.evaluate(_UNREAD)
        wrong += [f"{state} {one.name}: {what}" for what in found]
        if await shown.scrolls_sideways():
            wrong.append(f"{state} {one.name}: scrolls sideways")
        await shown.picture(f"{state}-{one.name}")
    await page.evaluate(_NORMAL)
    if before is not None:
        await page.set_viewport_size(before)
    await page.emulate_media(forced_colors="none", color_scheme="light")
    wrong += [f"{state}: {moves}" for moves in await page.evaluate(_MOVING)]
    return wrong
