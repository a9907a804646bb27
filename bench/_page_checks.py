# SPDX-License-Identifier: Apache-2.0
"""Checks of an open page: sizes and contrasts of its texts, overlaps, width, the keyboard."""

from collections.abc import Callable
from typing import Any

__all__ = ["CHECKS"]

LEAST_PX, LEAST_CONTRAST, MOST_FOUND = 11, 4.5, 5

TEXTS = r"""
(() => {
  const found = [];
  const rgb = (text) => {
    const n = text.match(/[\d.]+/g).map(Number);
    return n.length < 4 ? [...n.slice(0, 3), 1] : n;
  };
  const over = (top, below) => top.slice(0, 3).map((c, i) => c * top[3] + below[i] * (1 - top[3]));
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (c) => {
    const [r, g, b] = c.map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const behind = (node, box) => {
    // Of a text in a drawing, the last bar before it that is below its middle; else backgrounds.
    if (node.closest("svg")) {
      const x = box.left + box.width / 2, y = box.top + box.height / 2;
      const blocks = [...node.closest("svg").querySelectorAll("rect,circle")].filter((each) => {
        const order = each.compareDocumentPosition(node);
        if (!(order & Node.DOCUMENT_POSITION_FOLLOWING)) return false;
        const of = each.getBoundingClientRect();
        return of.left <= x && x <= of.right && of.top <= y && y <= of.bottom;
      });
      if (blocks.length) return rgb(getComputedStyle(blocks.at(-1)).fill).slice(0, 3);
    }
    const stack = [];
    for (let at = node; at; at = at.parentElement) {
      stack.push(rgb(getComputedStyle(at).backgroundColor));
    }
    return stack.reverse().reduce((below, each) => over(each, below), [255, 255, 255]);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.textContent.trim()) continue;
    if (parent.closest("script,style,[hidden],option,title")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    const style = getComputedStyle(parent), svg = !!parent.closest("svg");
    const colour = rgb(svg ? style.fill : style.color);
    const at = behind(parent, box);
    let scale = 1;
    if (svg && parent.getScreenCTM) {
      const m = parent.getScreenCTM();
      scale = Math.hypot(m.a, m.b);
    }
    const rects = svg ? [box] : [...range.getClientRects()];
    found.push({
      text: node.textContent.trim().slice(0, 40),
      size: parseFloat(style.fontSize) * scale,
      contrast: contrast(over(colour, at), at),
      boxes: rects.map((b) => [b.left, b.top, b.right, b.bottom]),
    });
  }
  return found;
})()
"""


def _texts(tab: Any) -> list[str]:
    """Texts that are small, faint, or lie on one another."""
    texts = tab.evaluate(TEXTS)
    found = [] if texts else ["there is no text"]
    small = [each for each in texts if each["size"] < LEAST_PX - 0.01]
    faint = [each for each in texts if each["contrast"] < LEAST_CONTRAST]
    found += [f"{each['size']:.1f} px: {each['text']!r}" for each in small[:MOST_FOUND]]
    found += [f"contrast {each['contrast']:.2f}: {each['text']!r}" for each in faint[:MOST_FOUND]]
    return found + _overlaps(texts)[:MOST_FOUND]


def _overlaps(texts: list[dict[str, Any]]) -> list[str]:
    """Pairs of texts whose boxes share more than a rim of two pixels."""
    boxes = sorted(
        (top, left, right, bottom, number)
        for number, each in enumerate(texts) for left, top, right, bottom in each["boxes"]
    )
    found = []
    for place, (_, left, right, bottom, number) in enumerate(boxes):
        for top, other_left, other_right, other_bottom, other in boxes[place + 1 :]:
            if top > bottom - 2:
                break
            across = min(right, other_right) - max(left, other_left)
            if other != number and across > 2 and min(bottom, other_bottom) - top > 2:
                found.append(f"{texts[number]['text']!r} and {texts[other]['text']!r} overlap")
    return found


def _width(tab: Any) -> list[str]:
    wide = tab.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return [f"the page is {wide} px wider than the window"] if wide > 0 else []


def _keyboard(tab: Any) -> list[str]:
    """Failures of keys: zoom of a timeline, a sorted table."""
    found = []
    if tab.locator("[data-kind=timeline] svg").count():
        tab.locator("[data-kind=timeline] svg").focus()
        before = tab.locator("[data-kind=timeline] output").inner_text()
        tab.keyboard.press("+")
        zoomed = tab.locator("[data-kind=timeline] output").inner_text()
        tab.keyboard.press("0")
        after = tab.locator("[data-kind=timeline] output").inner_text()
        if zoomed == before or after != before:
            found.append(f"keys + and 0 of the timeline: {before}, {zoomed}, {after}")
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("Enter")
        if tab.locator("#tip").is_hidden():
            found.append("arrow keys choose no bar of the timeline")
        tab.keyboard.press("Escape")
    if tab.locator("th button").count():
        button = tab.locator("th button").first
        button.focus()
        tab.keyboard.press("Enter")
        if button.locator("xpath=..").get_attribute("aria-sort") != "ascending":
            found.append("Enter does not sort a table")
    else:
        found.append("no table can be sorted")
    return found


CHECKS: tuple[Callable[[Any], list[str]], ...] = (_texts, _width, _keyboard)
