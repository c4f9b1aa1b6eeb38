"""`python -m messaging.web`: what `messaging web` becomes."""

import argparse
import sys

from messaging.errors import ConfigurationError
from messaging.web.serve import serve


def main() -> int:
    """Run the application; answers the exit code."""
    parser = argparse.ArgumentParser(prog="messaging web", allow_abbrev=False)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--trusted-proxies", default="")
    parser.add_argument("--log-level", default="INFO")
    given = parser.parse_args()
    proxies = [address for address in given.trusted_proxies.split(",") if address]
    try:
        has_run = serve(host=given.host, port=given.port, trusted_proxies=proxies, log_level=given.log_level)
    except ConfigurationError as exc:
        sys.stderr.write(f"messaging: {'; '.join(str(exc).splitlines())}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0 if has_run else 1


if __name__ == "__main__":
    sys.exit(main())
