"""What tests of providers share."""

import ssl

import httpx2
import pytest


@pytest.fixture(scope="session")
def authorities() -> ssl.SSLContext:
    """The system's authorities, as a client reads them for itself: that takes longer than most tests."""
    return httpx2.create_ssl_context()
