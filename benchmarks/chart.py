"""Line charts as SVG, drawn by hand: a few lines on logarithmic heights, each named at its end."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from html import escape

import msgspec

_WIDTH, _HEIGHT = 860, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 230, 56, 48
_GAP = 17  # between two names
# Told apart also by those who see no red or no green.
_COLOURS = ("#767676", "#0b57d0", "#56a0e8", "#d55e00", "#8e44ad", "#c48fd6", "#2a8c5f")


class Line(msgspec.Struct):
    name: str
    points: list[tuple[float, float]]


class Axes(msgspec.Struct):
    """Where a value lies on the page."""

    right: float
    low: float
    high: float

    def x(self, value: float) -> float:
        return _LEFT + value / self.right * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def draw(title: str, about: str, lines: list[Line], shown: Callable[[float], str]) -> str:
    values = [y for line in lines for _, y in line.points]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    axes = Axes(max(x for line in lines for x, _ in line.points), low, max(high, low + 1))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="#333">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 22, title, 'font-size="15" font-weight="600"'),
        _text(_LEFT, 40, about, 'fill="#666"'),
        *_grid(axes, shown),
        *_curves(axes, lines),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _grid(axes: Axes, shown: Callable[[float], str]) -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for power in range(int(axes.low), int(axes.high) + 1):
        y = axes.y(10.0**power)
        yield f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e3e3e3"/>'
        yield _text(_LEFT - 8, y + 4, shown(10.0**power), 'text-anchor="end"')
    for quarter in range(5):
        value = axes.right * quarter / 4
        yield _text(axes.x(value), bottom + 18, f"{value:,.0f}", 'text-anchor="middle"')
    yield _text((_LEFT + right) / 2, bottom + 36, "turns", 'text-anchor="middle"')


def _curves(axes: Axes, lines: list[Line]) -> Iterator[str]:
    ends = _apart([axes.y(line.points[-1][1]) for line in lines])
    for number, (line, end) in enumerate(zip(lines, ends, strict=True)):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in line.points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield _text(_WIDTH - _RIGHT + 8, end + 4, line.name, f'fill="{colour}"')


def _apart(heights: list[float]) -> list[float]:
    """The same order, and no two closer than a line of text; the lowest stays on the page."""
    places = list(heights)
    order = sorted(range(len(heights)), key=heights.__getitem__)
    for above, below in itertools.pairwise(order):
        places[below] = max(places[below], places[above] + _GAP)
    floor = float(_HEIGHT - _BOTTOM)
    for place in reversed(order):
        places[place] = min(places[place], floor)
        floor = places[place] - _GAP
    return places


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
