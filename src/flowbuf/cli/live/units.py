"""Short texts of numbers and times, for tables of the live view."""

from __future__ import annotations

__all__ = ["count_text", "share_text", "time_text"]

PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def count_text(number: float, unit: str = "") -> str:
    """Return a number and its unit in a few characters: "0.4", "12", "9,999", "361 k", "1.73 MB"."""
    after = f" {unit}" if unit else ""
    if 0 < number < 0.05:
        return f"<0.1{after}"
    if 0 < number < 9.95:
        return f"{number:.1f}".removesuffix(".0") + after
    if number < (999.5 if unit else 99_999.5):
        return f"{number:,.0f}{after}"
    prefix = 0
    while number >= 999.5 and prefix < len(PREFIXES) - 1:
        number /= 1000
        prefix += 1
    digits = (number < 99.95) + (number < 9.995)
    return f"{number:.{digits}f} {PREFIXES[prefix]}{unit}"


def share_text(share: float) -> str:
    """Return a share in percent, rounded down, in at most 4 characters. Only 0 is "0%"."""
    return "<1%" if 0 < share < 0.01 else f"{int(share * 100 + 1e-9)}%"


def time_text(seconds: float) -> str:
    """Return a time: "5 s", "12:34" (minutes and seconds), "1:02:03" or "3 d 04:05"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, second = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{second:02}"
    hours, minute = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}:{minute:02}:{second:02}"
    return f"{hours // 24} d {hours % 24:02}:{minute:02}"
