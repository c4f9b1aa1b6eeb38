"""Chromium without a screen, unpacked by `fetch_packages.sh`, driven by Playwright, which is told its libraries."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.far_end.packages import MULTIARCH, FarEndMissing, require_tree

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{root}/usr/share/fonts</dir><cachedir>{cache}</cachedir></fontconfig>
"""


@contextmanager
def chromium(folder: Path) -> Iterator["Browser"]:
    """The browser; what it writes is in the folder. Where it cannot be had the test is skipped, in CI failed."""
    root = require_tree("browser")
    if find_spec("playwright") is None:
        pytest.skip(str(FarEndMissing("far end missing: playwright: not installed; run `make setup`")))
    from playwright.sync_api import sync_playwright

    fonts = folder / "fonts.conf"
    fonts.write_text(_FONTS.format(root=root, cache=folder / "fonts"))
    libraries = (f"usr/lib/{MULTIARCH}", f"lib/{MULTIARCH}", f"usr/lib/{MULTIARCH}/pulseaudio")
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": ":".join(str(root / each) for each in libraries),
        "FONTCONFIG_FILE": str(fonts),
        "HOME": str(folder),
    }
    driver = sync_playwright()
    # Playwright starts its own Node with the environment of this process, and takes no other.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", environment["LD_LIBRARY_PATH"])
        playwright = driver.start()
    try:
        program = root / "usr/lib/chromium/chromium-headless-shell"
        browser = playwright.chromium.launch(executable_path=program, env=environment)
        try:
            yield browser
        finally:
            browser.close()
    finally:
        playwright.stop()
