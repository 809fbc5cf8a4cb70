"""The lines and the chart of the demo."""

from __future__ import annotations

import pyarrow as pa

from fencepost.cli.demo import report


def test_the_chart_is_a_picture(tmp_path):
    delays = pa.table(
        {
            "carrier": ["UA", "EV"], "flights": [10, 20], "cancelled": [0, 1],
            "mean_delay_min": [3.5, 19.8], "p90_delay_min": [9, 60], "late_pct": [10.0, 40.0],
        }
    )  # fmt: skip
    hours = pa.table(
        {
            "hour": [1, 5, 6], "flights": [1, 10, 19], "cancelled": [1, 0, 0],
            "mean_delay_min": [None, 1.0, 2.0],
        }
    )  # fmt: skip
    routes = pa.table({"origin": ["JFK"], "dest": ["LAX"], "flights": [11262]})
    assert "ExpressJet" in report.delay_lines(delays)[1]
    report.draw_chart(delays, hours, routes, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
