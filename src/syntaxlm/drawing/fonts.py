"""The fonts of all pictures."""

# Listed by name, because only browsers have a default font: sans-serif fonts of common systems, then fonts
# for scripts that these lack.
FONT_NAMES = (
    "Noto Sans", "DejaVu Sans", "Segoe UI", "Helvetica Neue", "Helvetica", "Arial", "Liberation Sans", "Roboto",
    "Ubuntu", "Cantarell", "Open Sans", "FreeSans", "Nimbus Sans", "Verdana", "Noto Sans Arabic", "Noto Sans Hebrew",
    "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", "WenQuanYi Micro Hei", "Noto Color Emoji",
)  # fmt: skip
FONTS = ",".join(f"'{name}'" for name in FONT_NAMES) + ",sans-serif"
