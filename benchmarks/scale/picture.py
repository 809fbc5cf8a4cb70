"""The picture of docs/SCALE.md: how many partitions are led again, by time."""

from __future__ import annotations

from typing import Final

from benchmarks.scale.scenarios import Happened, Size

WIDTH: Final = 720
HEIGHT: Final = 300
LEFT: Final = 60
BOTTOM: Final = 40
TOP: Final = 56
COLOURS: Final = ("#1f6feb", "#d1242f", "#6e7781")
STEP_MS: Final = 100
AXES: Final = (
    f'<text x="{(LEFT + WIDTH - 20) // 2}" y="{HEIGHT - 5}" text-anchor="middle">'
    "time since the death of a broker, rack or controller</text>",
    f'<text transform="translate(12 {(TOP + HEIGHT - BOTTOM) // 2}) rotate(-90)"'
    ' text-anchor="middle">partitions led again</text>',
)
"""What the two axes are."""


def draw(size: Size, happened: list[Happened]) -> str:
    """An SVG: leaders that serve (full lines) and acknowledge acks=all (dashed), in percent."""
    last_ms = max(max(one.course.acknowledging_ms, default=0.0) for one in happened)
    end_ms = (int(last_ms) // STEP_MS + 1) * STEP_MS
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *AXES,
    ]

    def x(ms: float) -> float:
        return LEFT + (WIDTH - LEFT - 20) * ms / end_ms

    def y(part: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * part

    for percent in (0, 50, 100):
        height = y(percent / 100)
        lines.append(f'<path d="M{LEFT} {height:.0f}H{WIDTH - 20}" stroke="#d0d7de"/>')
        lines.append(
            f'<text x="{LEFT - 8}" y="{height + 4:.0f}" text-anchor="end">{percent} %</text>'
        )
    for ms in range(0, end_ms + 1, max(STEP_MS, end_ms // 8 // STEP_MS * STEP_MS)):
        lines.append(
            f'<text x="{x(ms):.0f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{ms} ms</text>'
        )
    for colour, one, place in zip(COLOURS, happened, range(3), strict=False):
        for times, dashes in (
            (one.course.serving_ms, ""),
            (one.course.acknowledging_ms, ' stroke-dasharray="5 3"'),
        ):
            ranked = sorted(times)
            step = max(1, len(ranked) // 200)
            points = " ".join(
                f"{x(ms):.1f},{y((at + 1) / len(ranked)):.1f}"
                for at, ms in enumerate(ranked)
                if at % step == 0 or at == len(ranked) - 1
            )
            lines.append(
                f'<polyline points="{points}" fill="none" stroke="{colour}"'
                f' stroke-width="2"{dashes}/>'
            )
        lines.append(
            f'<text x="{LEFT}" y="{16 + 14 * place}" fill="{colour}">{one.name}:'
            f" {len(one.course.serving_ms):,} leaders serve (dashed: acknowledge acks=all)</text>"
        )
    lines.append("</svg>")
    return "\n".join(lines) + "\n"
